"""The backend of Annif through Annif's own command line; a long test makes an environment with Annif for it."""

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from house import ROOT

import manyclass

WITHOUT = "Annif is not installed; the long test of this file makes an environment that has it"
needs_annif = pytest.mark.skipif(importlib.util.find_spec("annif") is None, reason=WITHOUT)
N_SUBJECTS = 30
SECONDS = 300  # a command takes some two; one that hangs fails the test
PROJECT = """[ours]
name=ours
language=en
backend=manyclass
analyzer=simple
vocab=subjects
limit=10
dim=16
sampler=all
random_state=0
"""


def annif(folder, *arguments, check=True, text=None, **environment):
    """What a command of Annif prints, with its exit code where `check` is off; it registers the backend by one line."""
    program = shutil.which("annif", path=str(Path(sys.executable).parent))
    assert program, f"no command `annif` beside {sys.executable}"
    settings = {"ANNIF_CONFIG": "manyclass.integrations.annif.Config", "NLTK_DATA": "nltk", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=os.environ | settings | environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if not check:
        return done.returncode, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_documents(path, n, rng):
    """Texts of four words that are those of one or two subjects, and a word of none."""
    with path.open("w") as file:
        for _ in range(n):
            own = rng.sample(range(N_SUBJECTS), rng.randint(1, 2))
            words = [f"term{chr(97 + k // 26)}{chr(97 + k % 26)}" for k in rng.choices(own, k=4)]
            subjects = " ".join(f"<http://example.org/s{k}>" for k in own)
            file.write(" ".join([*words, rng.choice(["common", "usual"])]) + f"\t{subjects}\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a vocabulary and a trained project."""
    folder = tmp_path_factory.mktemp("annif")
    # Annif's analyzers want NLTK's sentence tokenizer, which they would download: its parameters, untrained.
    punkt = folder / "nltk/tokenizers/punkt_tab/english"
    punkt.mkdir(parents=True)
    for name in ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab"):
        (punkt / name).touch()
    rng = random.Random(0)
    write_documents(folder / "train.tsv", 600, rng)
    write_documents(folder / "test.tsv", 100, rng)
    vocabulary = "".join(f"<http://example.org/s{k}>\tsubject {k}\n" for k in range(N_SUBJECTS))
    (folder / "vocabulary.tsv").write_text(vocabulary)
    (folder / "projects.cfg").write_text(PROJECT)
    annif(folder, "load-vocab", "subjects", "vocabulary.tsv", "--language", "en")
    annif(folder, "train", "--jobs", "2", "ours", "train.tsv")
    return folder


def evaluate(folder, jobs):
    annif(folder, "eval", "--jobs", str(jobs), "--metrics-file", f"{jobs}.json", "ours", "test.tsv")
    return json.loads((folder / f"{jobs}.json").read_text())


@needs_annif
def test_suggestions_are_subjects_of_the_vocabulary_with_scores_between_0_and_1(project):
    lines = annif(project, "suggest", "--limit", "3", "ours", text="termab termab common").splitlines()
    found = [line.split("\t") for line in lines]
    assert found[0][:2] == ["<http://example.org/s1>", "subject 1"]
    scores = [float(row[2]) for row in found]
    assert 1 >= scores[0] > 0.5 > scores[1] > scores[2] >= 0
    assert annif(project, "suggest", "ours", text="unknown words only") == ""


@needs_annif
def test_evaluation_by_two_processes_ends_and_equals_that_of_one(project):
    """A process that is forked after threads have run cannot start threads: predictions use one."""
    one, two = evaluate(project, 1), evaluate(project, 2)
    assert one == pytest.approx(two, rel=1e-6)  # sums in another order of batches
    # A document's words are those of its subjects, all of which training has seen: errors are second subjects of which
    # no word was drawn, some 2 * (1/2)^4 of the documents with two.
    assert one["NDCG"] > 0.9


@needs_annif
def test_cached_training_gives_the_same_model_and_refuses_what_the_cache_was_not_made_with(project):
    before = annif(project, "suggest", "ours", text="termab termac")
    annif(project, "train", "--cached", "ours")
    assert annif(project, "suggest", "ours", text="termab termac") == before
    code, told = annif(project, "train", "--cached", "-b", "manyclass.min_df=2", "ours", check=False)
    assert code == 1
    assert "min_df is 2, the cached data have 1; train without --cached" in told


@needs_annif
@pytest.mark.parametrize(
    ("setting", "code", "message"),
    [
        ("max_iter=x", 1, "Misconfigured backend 'manyclass': max_iter is 'x'; it must be an integer"),
        ("estimator=svm", 1, "estimator is 'svm'; it must be one of 'margin', 'softmax'"),
        ("min_df=0", 1, "min_df is '0'; it must be an integer of at least 1"),
        ("min_df=1000", 1, "no features"),
        ("n_negative=4", 0, "n_negative is not known and has no effect (did you mean 'n_negatives'?)"),
    ],
)
def test_wrong_parameters_are_told_and_an_unknown_one_warned_of(project, setting, code, message):
    got, told = annif(project, "train", "-b", f"manyclass.{setting}", "ours", "train.tsv", check=False)
    assert got == code
    assert message in told


@needs_annif
@pytest.mark.parametrize("setting", ["max_iter=-1", "solver=umax"])
def test_a_training_that_fails_leaves_all_files_of_the_one_before(project, setting):
    write_documents(project / "other.tsv", 50, random.Random(1))
    (project / "broken.tsv").write_text("other words alone\t<http://example.org/s1>\n" * 20)
    folder = next(project.rglob("manyclass-model.safetensors")).parent
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    suggested = annif(project, "suggest", "ours", text="termab termac")
    # One subject alone cannot be trained on, which shows once the documents have been read.
    for documents, more in (("other.tsv", ("-b", f"manyclass.{setting}")), ("broken.tsv", ())):
        code, _ = annif(project, "train", *more, "ours", documents, check=False)
        assert code == 1
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert annif(project, "suggest", "ours", text="termab termac") == suggested


@needs_annif
def test_documents_are_learnt_after_training(project):
    (project / "learn.cfg").write_text(PROJECT + "allow_learn=true\n")
    model = next(project.rglob("manyclass-model.safetensors"))
    before = manyclass.load(model)
    annif(project, "learn", "ours", "test.tsv", ANNIF_PROJECTS="learn.cfg")
    learnt = manyclass.load(model)
    assert learnt.n_iter_ == before.n_iter_ + 1
    assert set(before.classes_) <= set(learnt.classes_)
    assert learnt.class_count_.sum() > before.class_count_.sum()
    annif(project, "suggest", "ours", text="word")


@needs_annif
def test_hyperopt_recommends_parameters_that_train_takes(project):
    told = annif(project, "hyperopt", "--trials", "2", "--jobs", "2", "ours", "test.tsv")
    lines = told.split("---")[1].split()
    assert [line.split("=")[0] for line in lines] == ["learning_rate", "decay", "max_iter", "dim", "smoothing"]
    options = [part for line in lines for part in ("-b", f"manyclass.{line}")]
    annif(project, "train", "--cached", *options, "ours")


@needs_annif
def test_the_module_is_annifs_command_with_the_backend_registered(project):
    command = [sys.executable, "-m", "manyclass.integrations.annif", "show-project", "ours"]
    environment = os.environ | {"NLTK_DATA": "nltk"}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    assert "Backend:           manyclass" in done.stdout


@pytest.mark.long
def test_the_backend_works_in_an_environment_that_pip_has_made(tmp_path):
    """Annif pins older NumPy and scikit-learn than this environment has; the package is built and installed beside."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"{ROOT}[annif]", "pytest"], check=True)
    command = [python, "-m", "pytest", "-o", "addopts=", "-q", "-rs", "-m", "not long", "-p", "no:cacheprovider"]
    files = [ROOT / "tests/integrations/test_annif.py", ROOT / "tests/integrations/test_subject_model.py"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*command, *files], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout
