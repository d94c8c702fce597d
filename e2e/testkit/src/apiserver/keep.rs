//! What `test-servers` keeps: servers for many processes, and their first state.
//!
//! Invariant: a server that can be seen below the folder answers, and everything ends with the value.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use futures::future::{try_join, try_join_all};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::api::Api;

use super::lent::ALONE;
use super::{Common, ManagementApi, Options};
use crate::process::Workdir;
use crate::programs::Programs;
use crate::waiting::{PATIENCE, ask_until, wait_for};

/// Servers that are lent; they end when this is dropped.
pub struct Kept {
    _all: Vec<ManagementApi>,
}

impl Kept {
    /// Starts those that many use, and so many that one at a time has, all at once; each has a folder
    /// below `dir`, which is made where it is missing.
    pub async fn start(dir: &Path, alone: usize) -> Result<Self> {
        let programs = Programs::find()?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.with_context(|| format!("cannot make {}", dir.display()))?;
        let common = Common::ALL.map(|common| {
            let (programs, folder) = (programs.clone(), dir.join(common.name()));
            async move {
                let api = common.start(programs, Workdir::at(&folder)?).await?;
                api.publish().await?;
                anyhow::Ok(api)
            }
        });
        let alone = (1..=alone).map(|number| {
            let (programs, folder) = (programs.clone(), dir.join(format!("{ALONE}{number}")));
            async move {
                let dir = Workdir::at(&folder)?;
                let api = ManagementApi::start_in(dir, programs, Options::alone()).await?;
                settled(&api).await?;
                api.publish_first().await?;
                api.publish().await?;
                anyhow::Ok(api)
            }
        });
        let (mut all, alone) = try_join(try_join_all(common), try_join_all(alone)).await?;
        all.extend(alone);
        Ok(Self { _all: all })
    }
}

/// Waits until the server has made what it makes by itself, a moment after it is ready: what is not in
/// its first state would be taken away by each rewind.
async fn settled(api: &ManagementApi) -> Result<()> {
    let admin = api.admin()?;
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        wait_for(&namespaces, name, |found| found.is_some(), PATIENCE).await?;
    }
    let services: Api<Service> = Api::namespaced(admin.clone(), "default");
    wait_for(&services, "kubernetes", |found| found.is_some(), PATIENCE).await?;
    let maps: Api<ConfigMap> = Api::namespaced(admin, "kube-system");
    let name = "extension-apiserver-authentication";
    wait_for(&maps, name, |found| found.is_some(), PATIENCE).await?;
    // Nothing announces the last of it.
    let seen = RefCell::new((BTreeSet::new(), 0));
    ask_until("nothing is added any more", PATIENCE, || async {
        let keys = api.settled_keys().await?;
        let mut seen = seen.borrow_mut();
        let times = if seen.0 == keys { seen.1 + 1 } else { 0 };
        *seen = (keys, times);
        Ok(match times {
            0..6 => Err(format!("{} keys, {times} times", seen.0.len())),
            _ => Ok(()),
        })
    })
    .await
}
