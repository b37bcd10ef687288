//! What handlers of RPCs and people with psql can read.
