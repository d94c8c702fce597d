//! What a [`super::FakeKubeVirt`] does: one choice for each thing that the real one may fail at.
//!
//! Invariant: the choices are independent of each other, and the default is that everything works.

/// What becomes of virtual machines that have no instance that runs yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Instances {
    /// They run.
    #[default]
    Run,
    /// There is no room for them: they stay `Scheduling`.
    Full,
    /// They are refused (a quota), so there are none.
    Refused,
}

/// How far volumes come that are plugged into what runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Volumes {
    /// What runs can use them.
    #[default]
    Ready,
    /// To the management cluster's node, and no farther; those that were ready stay so.
    Stuck,
}

/// All choices.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Behaviour {
    /// `false`: nothing happens, whatever is made or deleted.
    pub awake: bool,
    /// Of instances.
    pub instances: Instances,
    /// Of hot-plugged volumes.
    pub volumes: Volumes,
    /// `false`: what runs keeps volumes that its virtual machine no longer names, and outlives it.
    pub lets_go: bool,
    /// Whether the hook is called for what runs: a node joins.
    pub joins: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            awake: true,
            instances: Instances::default(),
            volumes: Volumes::default(),
            lets_go: true,
            joins: true,
        }
    }
}
