//! What the tests stand on: [`Site`] (an installation), [`Operator`] (a running process) and
//! [`state`] (everything that exists, made comparable).
//!
//! Invariant: two sites never see each other's objects: an operator's watches are narrowed to the
//! site's namespace by [`scope`], and its rights are those of one user.

pub(crate) mod backup_target;
pub(crate) mod checks;
pub(crate) mod etcd_members;
pub(crate) mod etcd_stage;
pub(crate) mod job_pods;
pub(crate) mod kms_plugin;
pub(crate) mod kubevirt;
pub(crate) mod operator;
pub(crate) mod parts;
pub(crate) mod pools;
pub(crate) mod proxy;
pub(crate) mod relay;
pub(crate) mod restore_pods;
pub(crate) mod restores;
pub(crate) mod scope;
pub(crate) mod site;
pub(crate) mod state;
pub(crate) mod tenant_api;
pub(crate) mod webhook;

pub(crate) use self::operator::{Launch, Operator, settled};
pub(crate) use self::site::Site;

/// How long a test waits for what takes well under a second on an idle machine.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
