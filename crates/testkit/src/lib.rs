//! For tests only: repository builder and Git as oracle.
