//! What tests against a real kube-apiserver need: the servers themselves, faults in and out of
//! the process, stand-ins for kubelets and tenants, fixtures, and counts of who wrote what.
//!
//! Invariant: nothing here depends on the operator, and nothing outlives the test process: neither
//! a child nor a temporary folder. No test sleeps; what has to be waited for is watched.

pub mod apiserver;
pub mod audit;
pub mod certs;
pub mod command_line;
pub mod difference;
pub mod disks;
pub mod etcd;
pub mod fakes;
pub mod faults;
pub mod figures;
pub mod fixtures;
pub mod memory;
pub mod names;
pub mod ports;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod request;
pub mod s3;
pub mod scope;
mod tls;
pub mod tokens;
pub mod waiting;

pub use apiserver::{ManagementApi, Options, Snapshot};
pub use audit::{AuditEntry, AuditLog, Window};
pub use fakes::kubelet::FakeKubelet;
pub use fakes::tenant_api::TenantApis;
pub use faults::FaultPlan;
pub use proxy::FaultProxy;
pub use scope::Scope;
