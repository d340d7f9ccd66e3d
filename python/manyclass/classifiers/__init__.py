"""The classifiers, with scikit-learn's habits."""
