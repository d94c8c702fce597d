//! From a TenantCluster to the objects of its control plane.
//!
//! Read from the ground up: [`settings`] (what the operator is configured with), [`flags`] (whose each
//! flag is), [`network`] (address ranges), `profile` (how large programs are made), [`validate`] (raw object to [`Validated`]), [`desired`] (the
//! control plane's objects, part by part), [`material`] (everything secret, in [`generations`]), [`encrypted_kinds`]
//! (what is encrypted at rest), [`kms`] (what encrypts it beside keys of Covey's),
//! [`backup`] (where copies of etcd go), [`secret_files`] and [`kubeconfig`] (how it is written into Secrets), [`amounts`], [`addons`],
//! [`certificates`] (what PKI is wanted), [`hibernation`] (when it sleeps by schedule), [`node`] (how a machine becomes a node), [`quota`] (what all of it
//! takes, and whether it may). On top, [`management_objects`] and [`tenant_objects`] are all that is wanted
//! outside and inside.
//!
//! Invariant: no I/O, no clock, no randomness, no environment. Same input, same output.

pub mod addons;
pub mod amounts;
pub mod backup;
pub mod certificates;
pub mod desired;
pub mod encrypted_kinds;
pub mod flags;
pub mod generations;
pub mod hibernation;
pub mod kms;
pub mod kubeconfig;
pub mod management_objects;
pub mod material;
mod meta;
pub mod names;
pub mod network;
pub mod node;
pub mod problem;
mod profile;
pub mod quota;
pub mod rollout;
mod secret_files;
pub mod settings;
pub mod tenant_objects;
mod text;
pub mod validate;
pub mod version;

pub use network::addresses::Addresses;
pub use settings::Settings;
pub use validate::Validated;
