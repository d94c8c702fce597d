//! What the tests stand on: [`Environment`] (a tenant namespace), [`Driver`] (a running controller) and
//! [`Fakes`] (storage and KubeVirt).
//!
//! Invariant: the user of a running one has exactly the rights of [`csi_proxy::rbac`].

pub(crate) mod driver;
pub(crate) mod environment;
pub(crate) mod fakes;

pub(crate) use self::driver::Driver;
pub(crate) use self::environment::Environment;
pub(crate) use self::fakes::{Fakes, Mode};

/// How long a test waits for what takes well under a second on an idle machine.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
