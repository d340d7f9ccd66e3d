// The list of solvers: objectives, rules for u in the double sum, and steps with a maker of their own.
#pragma once

#include "manyclass/objective/bouchard.hpp"
#include "manyclass/objective/importance.hpp"
#include "manyclass/objective/nce.hpp"
#include "manyclass/objective/one_vs_each.hpp"
#include "manyclass/objective/softmax.hpp"
#include "manyclass/objective/softplus.hpp"
#include "manyclass/objective/u_rules.hpp"
#include "manyclass/step/implicit.hpp"
#include "manyclass/step/minibatch_prox.hpp"

namespace manyclass {

using Solvers = Parts<Implicit,            //
                      UMax,                //
                      Vanilla,             //
                      ExactSoftmax,        //
                      Softmax,             //
                      ConstantAverage,     //
                      NaturalAverage,      //
                      CompositionAverage,  //
                      Scent,               //
                      Softplus,            //
                      ImplicitBregman,     //
                      OneVsEach,           //
                      NoiseContrastive,    //
                      NegativeSampling,    //
                      Importance,          //
                      Bouchard,            //
                      MinibatchProx>;

}  // namespace manyclass
