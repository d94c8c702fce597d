//! The kinds of covey.dev: one file per kind
