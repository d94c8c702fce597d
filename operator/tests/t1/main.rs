//! T1: the operator in this process, on a real kube-apiserver and etcd, without any kubelet.
//!
//! All share a management API, also where each has a process of its own. Each test has an installation
//! of its own ([`support::Site`]): a user's namespace, an operator whose identity has exactly the rights of
//! [`operator::rbac`], and stand-ins that play pods and tenants' servers.
//! Invariant: no test sleeps or polls; what has to be waited for is watched, with a time-out.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

mod access;
mod admission;
mod autoscaler;
mod aws;
mod azure;
mod backup_targets;
mod backups;
mod baseline;
mod choices;
mod cloud_controller;
mod clouds;
mod crash;
mod creation;
mod csi;
mod deletion;
mod etcd;
mod etcd_copy;
mod etcd_events;
mod etcd_members;
mod etcd_restore;
mod etcd_restore_into;
mod etcd_sizes;
mod etcd_slow_disk;
mod etcd_space;
mod etcd_survivor;
mod etcd_volume_loss;
mod faults;
mod features;
mod fleet;
mod gcp;
mod hetzner;
mod hibernation;
mod hibernation_webhooks;
mod hostile;
mod hosts;
mod identity;
mod idle;
mod keys;
mod kms;
mod kubevirt_release;
mod leadership;
mod machines;
mod misbehaving;
mod neighbours;
mod orphans;
mod pool_crash;
mod quiescence;
mod quotas;
mod ranges;
mod rbac;
mod renewal;
mod rollouts;
mod rotation;
mod rotation_at_rest;
mod rotation_clients;
mod rotation_cluster;
mod rotation_front_proxy;
mod rotation_tokens;
mod shards;
mod standby;
mod support;
mod tenant_objects;
mod upgrades;
mod volumes;
