//! What the tests stand on: [`Environment`] (a user's namespace and a tenant cluster),
//! [`FakeOperator`] (the operator and kubelets), [`Adapter`] (a running adapter), [`Program`] (the
//! same as a process) and [`Script`] (the Cluster Autoscaler).
//!
//! Invariant: the users of a running adapter have exactly the rights of [`autoscaler::rbac`].

pub(crate) mod adapter;
pub(crate) mod certs;
pub(crate) mod environment;
pub(crate) mod fake_operator;
pub(crate) mod program;
pub(crate) mod script;

pub(crate) use self::adapter::Adapter;
pub(crate) use self::environment::Environment;
pub(crate) use self::fake_operator::{FakeOperator, Mode};
pub(crate) use self::program::Program;
pub(crate) use self::script::Script;

/// How long a test waits for what takes well under a second on an idle machine.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
