from numpy import ufunc

wright_omega: ufunc
lambertw: ufunc
log_ndtr: ufunc
log_ndtr_derivative: ufunc
log_expit: ufunc
log_expit_derivative: ufunc
