//! The Covey operator: reconciles TenantClusters, NodePools and Machines.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`args`], [`print`] | the command line, and the manifests that it prints |
//! | [`configuration`] | the configuration file |
//! | `process` | what both processes begin with |
//! | [`run`] | the operator's process: admin port, Lease, controllers |
//! | [`webhook`] | the webhook's process, which needs no operator |
//! | [`manager`] | stores, watches and controllers of a running operator; what tests start |
//! | [`controllers`] | the reconcilers, a folder a kind: observe → plan → apply → report |
//! | [`context`] | handles to what every reconcile shares |
//! | [`stores`], [`triggers`], [`watches`] | our kinds as last seen; what makes them be reconciled again |
//! | [`shards`], [`membership`] | which part of the work is this replica's, and among whom it is shared |
//! | [`standby`] | control planes that run before anybody asks for them, and who takes one over |
//! | [`state`], [`throttle`] | failures, due times and metrics of one controller; pauses |
//! | [`request_rate`], [`turns`] | how much one tenant may ask for; whose turn it is where nobody waits |
//! | [`tenant_session`] | the only way to a tenant's API |
//! | [`prober`], [`tenant_metrics`] | whether tenants' APIs answer, and what is shown of each tenant cluster |
//! | [`host_sessions`] | what is done on machines that are reached by SSH |
//! | [`clouds`] | the providers that make machines by ProviderConfigs |
//! | [`node_silence`] | when each node was heard last |
//! | [`outages`] | wakes pools of which a location may be lost, or be back |
//! | [`exclusions`] | locations whose provider refuses the credentials |
//! | [`node_templates`] | what nodes of pools offer, as far as providers know |
//! | [`rollouts`] | how many control planes start at once, and who is next |
//! | [`fleet`] | in which order, and when, tenant clusters follow another operator |
//! | [`etcd_replacement`], [`etcd_space`], [`etcd_disks`] | a member of etcd that lost its data; a database that is full; a slow disk |
//! | [`etcd_events`] | whether Events are kept in an etcd of their own |
//! | [`upgrades`] | what speaks against an upgrade of a tenant cluster |
//! | [`rotation`], [`rewrites`] | the next step of something that signs and is turned; how far what is in etcd was encrypted anew |
//! | [`capacity`] | whether the management cluster has room for one machine more |
//! | [`pod_failures`] | why pods of control planes do not run |
//! | [`orphans`] | tenant namespaces whose TenantCluster is gone |
//! | [`kubevirt_release`] | whether the management cluster's KubeVirt has published holes |
//! | [`reserved_ranges`] | the management cluster's own ranges, and the settings in force with them |
//! | [`access`] | what AccessGrants and their tenant clusters have to do with each other |
//! | [`admission`] | the validating webhook, and its certificate, which the operator keeps |
//! | [`status`] | what is waited for, and the conditions of a failure |
//! | [`rbac`] | the rights that the code above needs; the chart's roles are generated from it |
//!
//! Invariant: only an operator that holds a Lease writes, each write is fenced by it, and no two do the same work.

pub mod access;
pub mod admission;
pub mod args;
pub mod backups;
pub mod capacity;
pub mod cloud_limits;
pub mod clouds;
pub mod configuration;
pub mod context;
pub mod controllers;
pub mod creations;
pub mod endpoint_probes;
pub mod etcd_disks;
pub mod etcd_events;
pub mod etcd_replacement;
pub mod etcd_space;
pub mod exclusions;
pub mod fleet;
pub mod hibernation;
pub mod host_sessions;
pub mod kubevirt_release;
pub mod maintenance;
pub mod manager;
pub mod membership;
pub mod node_silence;
pub mod node_templates;
pub mod orphans;
pub mod outages;
pub mod overlay;
pub mod parts;
pub mod pod_failures;
pub mod print;
pub mod prober;
mod process;
pub mod publications;
pub mod rbac;
pub mod request_rate;
pub mod reserved_ranges;
pub mod restoring;
pub mod rewrites;
pub mod rollouts;
pub mod rotation;
pub mod run;
pub mod shards;
pub mod standby;
pub mod state;
pub mod status;
pub mod stores;
pub mod tenant_metrics;
pub mod tenant_session;
pub mod throttle;
pub mod triggers;
pub mod turns;
pub mod upgrades;
pub mod volume_loss;
pub mod watches;
pub mod webhook;

/// Field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "covey-operator";
