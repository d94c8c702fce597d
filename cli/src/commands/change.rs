//! `covey scale`, `pause` and `resume`: changes of one field.
//!
//! Invariant: nothing else of the object is written.

use api::{NodePool, TenantCluster};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::wait::until;
use crate::args::{Global, Named, Scale};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::judge::Goal;
use crate::output::say;

/// As whom the command line writes.
pub(super) const MANAGER: &str = "covey-cli";

pub(super) async fn scale(global: &Global, args: &Scale) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let pools: Api<NodePool> = Api::namespaced(connection.client, &connection.namespace);
    let (name, wanted) = (&args.pool, args.replicas);
    let act = format!("scale the NodePool {name} in {}", connection.namespace);
    let failed = |error: &kube::Error| Failure::of(&act, error);
    let pool = pools.get(name).await.map_err(|error| failed(&error))?;
    if let Some(autoscaling) = &pool.spec.autoscaling {
        let (min, max) = (autoscaling.min, autoscaling.max);
        let what =
            format!("the autoscaler decides how many machines {name} has, between {min} and {max}");
        let bound = if wanted > max {
            format!("raise `spec.autoscaling.max` to {wanted}")
        } else if wanted < min {
            format!("lower `spec.autoscaling.min` to {wanted}")
        } else {
            "change `spec.autoscaling.min` or `spec.autoscaling.max`".to_owned()
        };
        let mend = format!("{bound}, or remove `spec.autoscaling`");
        return Err(Failure::new(Exit::Refused, &what, &mend));
    }
    let patch = json!({ "spec": { "replicas": wanted } });
    let params = params();
    let scaled = pools.patch(name, &params, &Patch::Merge(&patch)).await;
    let scaled = scaled.map_err(|error| failed(&error))?;
    if !global.quiet {
        say(&format!(
            "{name}: {} -> {wanted} machines",
            pool.spec.replicas
        ));
    }
    if !args.waiting.wait {
        return Ok(Exit::Done);
    }
    let goal = Goal::Machines(wanted);
    until(&pools, &scaled, &goal, args.waiting.timeout, global).await
}

pub(super) async fn pause(global: &Global, args: &Named, on: bool) -> Result<Exit, Failure> {
    let connection = connect(global).await?;
    let clusters: Api<TenantCluster> =
        Api::namespaced(connection.client.clone(), &connection.namespace);
    let (name, patch) = (&args.name, json!({ "spec": { "paused": on } }));
    let written = clusters.patch(name, &params(), &Patch::Merge(&patch)).await;
    if let Err(error) = written {
        let (client, namespace) = (&connection.client, &connection.namespace);
        return Err(super::describe::missing(client, namespace, name, &error).await);
    }
    if !global.quiet {
        say(&match on {
            true => {
                format!("{name} is paused: nothing of it is changed until `covey resume {name}`")
            }
            false => format!("{name} goes on"),
        });
    }
    Ok(Exit::Done)
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
