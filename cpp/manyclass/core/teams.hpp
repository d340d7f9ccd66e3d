// Teams of threads: by OpenMP, and by the threads of workers.hpp where OpenMP cannot give them.
//
// Regions of OpenMP obey OMP_NUM_THREADS, OMP_PROC_BIND, threadpoolctl and joblib's limits, as those of other numerical
// packages do. Threads of the standard library take their place in two cases:
//
// - The build has no OpenMP. Builds by ThreadSanitizer have none, because it does not see how libgomp's threads wait.
// - The calling thread is the one that called fork, in the child. libgomp keeps threads for the thread that began the
//   last team, and would wait for ever for those that this one had in the parent. Other threads of the child are free.
//
// Where the system has no more threads, libgomp ends the process. A team therefore grows only after as many threads as
// it lacks, and as many again, have been started and ended; else it stays as it was.
#pragma once

#include "manyclass/core/workers.hpp"

namespace manyclass {

// Does a job on up to n_threads threads at once, of which the caller is rank 0, and returns when all have ended.
void run_together(int n_threads, Job job);

// Does a job of which the caller's end means that nothing is left to do. Threads of the standard library that have not
// begun by then never do; those of OpenMP are waited for nevertheless.
void share(int n_threads, Job job);

// The most threads of a team that this thread begins. OMP_NUM_THREADS, threadpoolctl or a call of omp_set_num_threads
// sets the number, else it is that of the processors. Without OpenMP, OMP_NUM_THREADS alone does, else there is no
// bound.
int most_threads();

// Whether teams are OpenMP's.
bool by_openmp();

}  // namespace manyclass
