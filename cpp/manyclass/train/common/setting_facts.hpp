// What a caller may set of a part beside the numbers that it owns: how its steps, passes and averages are made.
//
// The core has these as fields of its plans. Their defaults, ranges and choices, and which parts have them, are said
// here alone: parameter objects, checks, error texts and documentation are made from these facts.
#pragma once

#include <array>
#include <string_view>
#include <variant>

#include "manyclass/core/facts.hpp"
#include "manyclass/select/head_tail.hpp"

namespace manyclass {

struct Setting {
  std::string_view of{};  // the kind of the parts that may have it
  std::string_view name{};
  std::variant<std::monostate, bool, int, double, std::string_view> initial{};  // monostate: None
  std::string_view sentence{};
  std::string_view kind{};     // "integer", "flag", or "number" beside choices, where nothing else says so
  std::string_view choices{};  // words; or one kind of parts, whose names they are
  std::string_view beside{};   // a word that is allowed beside a number, other than the initial value
  double low = -unbounded;
  double high = unbounded;
  bool open_low = false;
  std::string_view needs{};  // flags of the parts that have it, in words; -word: a flag that they have not
};

// Flags beside those of solvers: "labels" where a solver trains several labels, "adagrad" of the solver of that name,
// which makes steps of minibatches; and the names of local steps.
inline constexpr std::array setting_facts{
    Setting{.of = "solver",
            .name = "u_learning_rate",
            .initial = "auto",
            .sentence = "Step size of the log-normaliser u of each point; \"tied\" is that of W, as in the paper; "
                        "\"auto\" is 30 for \"implicit\" and 0.5 for the Bregman steps, and for the others tied, or "
                        "with learning_rate=\"auto\" the c of its docstring. It follows the same schedule.",
            .beside = "tied",
            .low = 0,
            .open_low = true,
            .needs = "u_step"},
    Setting{.of = "solver",
            .name = "u_init",
            .initial = "log_n_classes",
            .sentence = "Start of every u: log K, which is exact at W = 0, or zero, as in the authors' code.",
            .choices = "log_n_classes zero",
            .needs = "u -overwrites_u"},
    Setting{.of = "solver",
            .name = "formulation",
            .initial = "auto",
            .sentence = "What is carried between visits of a point: u, or in Raman's form the log-normaliser u + x.w_y "
                        "(Fagan & Iyengar 2018, eq. 8), or u + a x.w_y for a number a, of which these are 0 and 1 (the "
                        "arXiv version, appendix A); \"auto\": \"proposed\", but \"raman\" for averages, U-max and SGD "
                        "with several labels or embeddings.",
            .kind = "number",
            .choices = "formulation",
            .needs = "formulations"},
    Setting{.of = "solver",
            .name = "root",
            .initial = "newton",
            .sentence = "How the step's scalar equation is solved: safeguarded Newton, or the paper's bisection.",
            .choices = "root",
            .needs = "root"},
    Setting{.of = "solver",
            .name = "partition",
            .initial = "fixed",
            .sentence = "Batches that are made once, with all their labels among the classes; or points drawn anew for "
                        "each visit, and classes from all of them (the arXiv version, E.4).",
            .choices = "partition",
            .needs = "batch"},
    Setting{.of = "solver",
            .name = "schedule",
            .initial = "exponential",
            .sentence = "Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or "
                        "constant; \"adaptive\" divides the step of each weight by sqrt(iterations) (1 + sqrt(running "
                        "mean of its squared gradients)), for explicit steps without ridge and max_norm (Ruiz et al. "
                        "2018, section 4).",
            .choices = "schedule",
            .needs = "-adagrad"},
    Setting{.of = "solver",  // not "adaptive": the step of each row follows its gradients in any case
            .name = "schedule",
            .initial = "exponential",
            .sentence = "Step size in pass t = 0, 1, ...: learning_rate * decay**t, learning_rate / (1 + t), or "
                        "constant.",
            .choices = "exponential inverse constant",
            .needs = "adagrad"},
    Setting{.of = "solver",
            .name = "decay",
            .initial = "auto",
            .sentence = "Factor of the exponential and the adaptive schedule for each pass, in ]0, 1].",
            .low = 0,
            .high = 1,
            .open_low = true},
    Setting{.of = "solver",
            .name = "decay_every",
            .sentence = "With the adaptive schedule: decay is the factor for this number of batches (2,000 in the "
                        "paper); None: for a pass. With \"inverse\" and several labels, embeddings or a margin: t "
                        "counts times that this number of batches was made.",
            .kind = "integer",
            .low = 1,
            .needs = "-implicit -batch -adagrad"},
    Setting{.of = "solver",
            .name = "averaging",
            .initial = "auto",
            .sentence = "Return the last iterate, the mean of those after each pass, or of the second half of the "
                        "passes; takes the memory of W once more. Where W is wide, fewer iterates are in the mean.",
            .choices = "none polyak suffix",
            .needs = "-adagrad"},
    Setting{.of = "solver",
            .name = "batch_size",
            .sentence = "Points whose steps are made at the same weights and averaged; None makes steps one by one, or "
                        "adds those of small batches so that threads can share the work.",
            .kind = "integer",
            .low = 1},
    Setting{.of = "solver",
            .name = "share_classes",
            .sentence = "Whether the points of a batch see the same drawn classes, which makes a class cheaper; None: "
                        "only with embeddings, several labels or a margin.",
            .kind = "flag",
            .needs = "-batch -all_classes"},
    Setting{.of = "solver",
            .name = "shuffle",
            .initial = true,
            .sentence = "Whether points are visited in a new random order in each pass."},
    Setting{.of = "solver",
            .name = "parallel",
            .initial = "deterministic",
            .sentence = "With \"deterministic\" the result does not depend on n_jobs; with \"hogwild\" threads race on "
                        "W, and it varies.",
            .choices = "deterministic hogwild",
            .needs = "-batch"},
    Setting{.of = "solver",
            .name = "max_norm",
            .sentence = "If given, each w_k is projected on the ball of this radius, intercepts are not; and u on [0, "
                        "infinity[ or, where there are none, on the interval that follows (Fagan & Iyengar 2018, "
                        "Algorithm 1 and Lemma 2; `manyclass.bounds.double_sum_constants` has the radius that holds "
                        "the optimum for a given alpha); needs steps of single points by one thread.",
            .low = 0,
            .open_low = true,
            .needs = "-batch -adagrad"},
    Setting{.of = "solver",
            .name = "log_q",
            .initial = true,
            .sentence = "With embeddings or several labels: whether e^z of a drawn class is divided by how often it is "
                        "expected, so that the mean of the sampled sum is the true one (Jean et al. 2015).",
            .needs = "log_q"},
    Setting{.of = "solver",
            .name = "reduction",
            .initial = "auto",
            .sentence = "How the labels of a row share a loss.",
            .choices = "pick_all pick_all_normalized decoupled logistic",
            .needs = "labels -adagrad"},
    Setting{.of = "solver",
            .name = "reduction",
            .initial = "auto",
            .sentence =
                "How the labels of a row share a loss. \"margin\" is that of `MarginClassifier` with smoothing "
                "5, whose scores are then divided by the best temperature for rows held out; of weights on pairs "
                "it is over the classes that a row meets.",
            .choices = "pick_all pick_all_normalized decoupled logistic margin",
            .needs = "adagrad"},
    Setting{.of = "full_batch",
            .name = "loss",
            .initial = "softmax",
            .sentence = "The mean log-loss, or an upper bound of it (Titsias 2016, eq. 15 and 11).",
            .choices = "full_batch_loss"},
    Setting{.of = "full_batch",
            .name = "tol",
            .initial = 1e-6,
            .sentence = "Stop when no entry of the gradient is larger in absolute value.",
            .low = 0},
    Setting{.of = "selection",
            .name = "n_head",
            .initial = 16,
            .sentence = "How many of its highest-scored wrong classes are found for each point, at most 64; takes 4 "
                        "n_samples n_head bytes. Dense data are searched through a SphericalClusterIndex, sparse data "
                        "by scoring all classes.",
            .kind = "integer",
            .low = 1,
            .high = static_cast<double>(HeadTail::max_head),
            .needs = "heads"},
    Setting{.of = "selection",
            .name = "refresh",
            .initial = 10,
            .sentence = "Passes before and between searches, each of which takes the time of several passes.",
            .kind = "integer",
            .low = 1,
            .needs = "heads"},
    Setting{.of = "local_step",
            .name = "family",
            .initial = "auto",
            .sentence = "Family of q; \"auto\" is the one with the tightest bound for the noise.",
            .choices = "local_family"},
    Setting{.of = "local_step",
            .name = "n_nodes",
            .initial = "auto",
            .sentence = "Nodes of the rule for expectations under q.",
            .kind = "integer",
            .low = 2,
            .high = 31},
    Setting{.of = "local_step",
            .name = "floor",
            .initial = "auto",
            .sentence = "Least gain; \"auto\" is the share of the classes that a step sees, 1 where it sees all; the "
                        "paper has 0.",
            .low = 0,
            .high = 1,
            .needs = "natural"},
    Setting{.of = "local_step",
            .name = "start",
            .initial = "best",
            .sentence = "Where q begins: at its best for equal scores of all classes, or \"standard\": with mean 0 and "
                        "scale 1, as in the code of Ruiz et al., from where their steps hardly move it.",
            .choices = "best standard"},
    // The mean of 100,000 probabilities has a standard error of at most 0.5 / sqrt(100000) = 0.0016.
    Setting{.of = "posterior",
            .name = "n_draws",
            .initial = 32,
            .sentence = "Draws of the scores for predictions, the same at every call.",
            .kind = "integer",
            .low = 1,
            .high = 100'000},
    Setting{.of = "posterior",
            .name = "bound",
            .initial = "augment_reduce",
            .sentence = "What stands for the log-likelihood in the posterior: the bound of augment and reduce, or "
                        "one-vs-each (Titsias 2016, sections 2 and 5), which is for noise \"gumbel\", looser, and has "
                        "no number for each point.",
            .choices = "augment_reduce one_vs_each"},
};

}  // namespace manyclass
