//! What the tests stand on: [`Site`] (a user's namespace and a tenant cluster), [`Player`] (the
//! operator and kubelets), [`Adapter`] (a running adapter), [`Program`] (the same as a process) and
//! [`Script`] (the Cluster Autoscaler).
//!
//! Invariant: the users of a running adapter have exactly the rights of [`autoscaler::rights`].

pub(crate) mod adapter;
pub(crate) mod certs;
pub(crate) mod player;
pub(crate) mod program;
pub(crate) mod script;
pub(crate) mod site;

pub(crate) use self::adapter::Adapter;
pub(crate) use self::player::{Mode, Player};
pub(crate) use self::program::Program;
pub(crate) use self::script::Script;
pub(crate) use self::site::Site;

/// How long a test waits for what takes well under a second on an idle machine.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
