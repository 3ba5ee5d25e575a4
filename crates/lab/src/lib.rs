//! Plans to runs to results to report.
