from numpy import ufunc

wright_omega: ufunc
lambertw: ufunc
