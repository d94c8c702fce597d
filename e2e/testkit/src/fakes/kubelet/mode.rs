//! What a [`super::FakeKubelet`] does.
//!
//! Invariant: it says what is played, never for which objects.

/// What it makes of everything that it plays.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Makes everything ready.
    Ready,
    /// Writes nothing: what is there stays, what is new never becomes ready.
    Paused,
    /// Makes workloads not ready, as if their containers crashed.
    Failing,
}

/// Which kinds are played; default: workloads only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// PersistentVolumeClaims become `Bound`.
    pub volumes: bool,
    /// Services of type LoadBalancer get the address 192.0.2.1.
    pub load_balancers: bool,
    /// Whether pods of etcd are made and then left to somebody else, who says how they are, and how their
    /// StatefulSet is, and the Deployment of the etcd of Events.
    pub without_etcd: bool,
}

impl Extras {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self {
            volumes: true,
            load_balancers: true,
            without_etcd: false,
        }
    }
}
