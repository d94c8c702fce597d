//! `covey snapshot`: a full snapshot of a tenant cluster's etcd.
//!
//! Invariant: each call makes a Snapshot of its own.

use api::Snapshot;
use kube::ResourceExt as _;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::core::ApiResource;

use super::change::MANAGER;
use super::describe::find;
use super::wait::until;
use crate::args::Global;
use crate::args::backups::Snapshot as Args;
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::kinds::name_of;
use crate::output::{result, say};

pub(super) async fn run(global: &Global, args: &Args) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    // A name that was mistyped would be waited for without an end.
    let cluster = find(client, namespace, &args.name).await?;
    if cluster.spec.backup.is_none() {
        let what = format!("{} has no backup that a snapshot could go to", args.name);
        let mend = "set `spec.backup.target` of the TenantCluster to a BackupTarget (`covey get backuptargets`)";
        return Err(Failure::new(Exit::Refused, &what, mend));
    }
    let mut snapshot = Snapshot::new(
        "",
        api::SnapshotSpec {
            cluster_name: args.name.clone(),
            keep_until: args.keep_until.clone(),
            ..api::SnapshotSpec::default()
        },
    );
    snapshot.metadata = ObjectMeta {
        generate_name: Some(format!("{}-", args.name)),
        ..ObjectMeta::default()
    };
    let snapshots: Api<Snapshot> = Api::namespaced(client.clone(), namespace);
    let params = PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    };
    let made = snapshots.create(&params, &snapshot).await;
    let made = made.map_err(|error| {
        Failure::of(
            &format!("make a Snapshot of {} in {namespace}", args.name),
            &error,
        )
    })?;
    let name = made.name_any();
    result(&(name_of(&ApiResource::erase::<Snapshot>(&()), &name) + "\n"))?;
    if !args.waiting.wait {
        if !global.quiet {
            say(&format!("how it goes: covey get snapshots {name}"));
        }
        return Ok(Exit::Done);
    }
    until(
        &snapshots,
        &made,
        &Goal::ready(),
        args.waiting.timeout,
        global,
    )
    .await
}
