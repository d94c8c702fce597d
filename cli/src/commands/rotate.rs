//! `covey rotate`: an authority or a key is replaced by a new one.
//!
//! Invariant: nothing but the one subject's fields is written; what there is to turn says the definition.

use api::TenantCluster;
use kube::CustomResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::change::MANAGER;
use super::describe::find;
use super::near::nearest;
use crate::args::{Global, Rotate};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::output::say;

pub(super) async fn run(global: &Global, args: &Rotate) -> Result<Exit, Failure> {
    let subjects = subjects();
    if !subjects.contains(&args.what) {
        let near = nearest(&args.what, subjects.iter().map(String::as_str));
        let near = near.map(|near| format!("; did you mean {near}?"));
        let what = format!(
            "there is no {} to turn{}",
            args.what,
            near.unwrap_or_default()
        );
        let mend = format!("name one of {}", subjects.join(", "));
        return Err(Failure::new(Exit::Usage, &what, &mend));
    }
    let asked = [
        ("nodes", args.nodes.is_some()),
        ("compromised", args.compromised),
    ];
    let unknown = asked.iter().filter(|(_, is_asked)| *is_asked);
    let unknown = unknown.map(|(field, _)| *field);
    let unknown = unknown.filter(|field| !fields(&args.what).iter().any(|it| it == field));
    if let Some(field) = unknown.into_iter().next() {
        let what = format!("{} is turned without --{field}", args.what);
        let has = |subject: &&String| fields(subject).iter().any(|it| it == field);
        let those: Vec<_> = subjects.iter().filter(has).map(String::as_str).collect();
        let mend = format!("leave it out, or name one of {}", those.join(", "));
        return Err(Failure::new(Exit::Usage, &what, &mend));
    }
    let connection = connect(global).await?;
    let (client, namespace, name) = (&connection.client, &connection.namespace, &args.name);
    let cluster = find(client, namespace, name).await?;
    let (turn, said) = turn(&cluster, args);
    let patch = json!({ "spec": { "rotation": { args.what.clone(): turn } } });
    // What an API of an older version does not know would be dropped without a word.
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        field_validation: Some(kube::api::ValidationDirective::Strict),
        ..PatchParams::default()
    };
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let written = clusters.patch(name, &params, &Patch::Merge(&patch)).await;
    written.map_err(|error| Failure::of(&format!("turn {} of {name}", args.what), &error))?;
    if !global.quiet {
        say(&format!(
            "{said}; how it goes: covey get tc {name} -o yaml, status.rotation"
        ));
    }
    Ok(Exit::Done)
}

/// What can be turned: the fields of `spec.rotation`.
fn subjects() -> Vec<String> {
    properties("")
}

/// What can be said of one of them.
fn fields(subject: &str) -> Vec<String> {
    properties(&format!("/{subject}/properties"))
}

/// The fields in the definition at a place below those of `spec.rotation`.
fn properties(place: &str) -> Vec<String> {
    let definition = serde_json::to_value(TenantCluster::crd()).unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array();
    let schemas = versions.into_iter().flatten().filter_map(|version| {
        let path = "/schema/openAPIV3Schema/properties/spec/properties/rotation/properties";
        version.pointer(&format!("{path}{place}"))?.as_object()
    });
    schemas.flat_map(|all| all.keys().cloned()).collect()
}

/// What is written, and what is said of it.
fn turn(cluster: &TenantCluster, args: &Rotate) -> (Value, String) {
    let what = &args.what;
    if args.hold || args.go_on {
        let said = match args.hold {
            true => format!("{what} stays where it is"),
            false => format!("{what} goes on"),
        };
        return (json!({ "hold": args.hold }), said);
    }
    let status = cluster.status.iter().flat_map(|status| &status.rotation);
    let known = status.filter(|told| told.name == *what);
    let told = known.flat_map(|told| told.believed.iter().copied().chain([told.generation]));
    let asked = serde_json::to_value(&cluster.spec.rotation).unwrap_or_default();
    let asked = asked[what]["generation"].as_u64();
    let asked = asked.and_then(|asked| u32::try_from(asked).ok());
    // A new tenant cluster has the first.
    let newest = told.chain(asked).max().unwrap_or(1);
    let generation = args.generation.unwrap_or(newest.saturating_add(1));
    let mut said = format!("{what} is turned to generation {generation}");
    let mut turn = json!({ "generation": generation });
    if let Some(nodes) = &args.nodes {
        turn["nodes"] = json!(nodes);
    }
    if args.compromised {
        turn["compromised"] = json!(generation);
        said.push_str(", because a key of before was stolen");
    }
    (turn, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(generation: Option<u32>, hold: bool, go_on: bool) -> Rotate {
        Rotate {
            name: "demo".to_owned(),
            what: "usersCA".to_owned(),
            generation,
            nodes: None,
            compromised: false,
            hold,
            go_on,
        }
    }

    fn cluster(spec: &Value, status: &Value) -> TenantCluster {
        let cluster = json!({ "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo" }, "spec": { "version": "1.35.4", "rotation": spec },
            "status": { "rotation": status } });
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn a_new_generation_is_above_all_that_there_were() {
        let next = |spec: &Value, status: &Value| {
            turn(&cluster(spec, status), &args(None, false, false)).0["generation"].clone()
        };
        assert_eq!(next(&json!({}), &json!([])), 2);
        assert_eq!(
            next(&json!({ "usersCA": { "generation": 4 } }), &json!([])),
            5
        );
        let told = json!([{ "name": "usersCA", "generation": 6, "signs": 6, "believed": [6], "phase": "Idle",
            "since": "2026-11-27T12:00:00Z" }]);
        assert_eq!(next(&json!({ "usersCA": { "generation": 4 } }), &told), 7);
        let (named, _) = turn(&cluster(&json!({}), &told), &args(Some(6), false, false));
        assert_eq!(named, json!({ "generation": 6 }));
    }

    #[test]
    fn stolen_key_is_said_of_the_generation_that_is_made() {
        let of_cluster = Rotate {
            what: "clusterCA".to_owned(),
            nodes: Some("InPlace".to_owned()),
            compromised: true,
            ..args(None, false, false)
        };
        let (turn, said) = turn(&cluster(&json!({}), &json!([])), &of_cluster);
        let wanted = json!({ "generation": 2, "nodes": "InPlace", "compromised": 2 });
        assert_eq!(turn, wanted);
        assert!(said.ends_with("was stolen"), "{said}");
        let has = |subject: &str, field: &str| fields(subject).iter().any(|it| it == field);
        assert!(has("clusterCA", "compromised") && has("clientCA", "nodes"));
        assert!(!has("clientCA", "compromised") && !has("usersCA", "nodes"));
    }

    #[test]
    fn what_can_be_turned_is_what_the_definition_has() {
        assert!(
            subjects().contains(&"usersCA".to_owned()),
            "{:?}",
            subjects()
        );
    }

    #[test]
    fn holding_changes_no_generation() {
        let demo = cluster(&json!({ "usersCA": { "generation": 4 } }), &json!([]));
        assert_eq!(
            turn(&demo, &args(None, true, false)).0,
            json!({ "hold": true })
        );
        assert_eq!(
            turn(&demo, &args(None, false, true)).0,
            json!({ "hold": false })
        );
    }
}
