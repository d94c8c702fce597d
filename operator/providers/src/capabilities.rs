//! What a provider can do and others cannot.
//!
//! Invariant: the default is that it can do nothing, so that a provider that forgets to say something is treated
//! with the greater care.

/// What a provider can do. It holds for all its machines and never changes while the operator runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capabilities {
    /// A machine that was stopped, or started anew, has the disk that it had. Else another instance has an empty
    /// disk, and the machine is replaced.
    pub keeps_disk: bool,
    /// The user data of a machine can be taken away while it runs. Else they can be read for ever, and the death
    /// of the token in them is all that protects it. The token is revoked first in either case.
    pub blanks_user_data: bool,
    /// Most bytes of user data, before they are encoded; none: no limit that is known.
    pub user_data_limit: Option<usize>,
    /// Everything of a machine is in the tenant namespace, and goes with it. Else a machine outlives its tenant
    /// cluster until it was deleted and that is proven.
    pub goes_with_namespace: bool,
    /// What provider and node call the machine is known before it is made.
    pub id_before_create: bool,
    /// It says in advance that a machine has to leave.
    pub evacuation_notice: bool,
    /// When it says that a machine is stopped, nothing of it runs and nothing of it writes.
    pub proves_fenced: bool,
    /// A machine can prove by the provider's word which one it is.
    pub attests: bool,
    /// It can start a machine anew on the disk that it has ([`crate::Provider::restart`]).
    pub restarts: bool,
    /// Somebody watches its machines, and each change of one has its Machine looked at. Else that is done again and
    /// again by the clock.
    pub watched: bool,
    /// The cloud controller manager of the tenant cluster reads the machines itself, beside itself in the tenant
    /// namespace. Else it is told of them by `MachineAddresses`.
    pub read_by_cloud_controller: bool,
    /// Longest name of a machine, in bytes; none: any name that a Machine may have.
    pub max_name: Option<usize>,
}
