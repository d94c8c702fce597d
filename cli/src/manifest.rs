//! The objects that `covey create` makes.
//!
//! Invariant: pure. Only what was named stands in them; everything else is the definition's default.

use api::{NodePool, TenantCluster};
use kube::core::ApiResource;
use serde_json::{Map, Value, json};

use crate::args::create::{CreateCluster, CreatePool, Endpoint};
use crate::exit::{Exit, Failure};

/// An object to make, and how the API calls its kind.
pub(crate) struct Manifest {
    pub(crate) resource: ApiResource,
    pub(crate) object: Value,
}

/// The spec of the TenantCluster in a file.
pub(crate) fn spec_of(text: &str, name: &str) -> Result<Value, Failure> {
    let unread = |why: &str| {
        let what = format!("the file has no TenantCluster that could be made: {why}");
        let mend = "write one object with `kind: TenantCluster` and its `spec`";
        Failure::new(Exit::Usage, &what, mend)
    };
    let object: Value = serde_saphyr::from_str(text).map_err(|error| unread(&error.to_string()))?;
    if object["kind"] != "TenantCluster" || !object["spec"].is_object() {
        return Err(unread("it is of another kind, or has no spec"));
    }
    // Fields are of the kinds that they are to be, whatever the flags add; a version may be one of those.
    let mut whole = object.clone();
    if whole["spec"]["version"].is_null() {
        whole["spec"]["version"] = json!("");
    }
    if whole["metadata"].is_null() {
        whole["metadata"] = json!({});
    }
    serde_json::from_value::<TenantCluster>(whole).map_err(|error| unread(&error.to_string()))?;
    let called = object["metadata"]["name"].as_str();
    match called.filter(|called| *called != name) {
        Some(called) => {
            let what = format!("the TenantCluster of the file is called {called}, and not {name}");
            let mend = format!("`covey create cluster {called}`, or take `metadata.name` out");
            Err(Failure::new(Exit::Usage, &what, &mend))
        }
        None => Ok(object["spec"].clone()),
    }
}

/// The TenantCluster, and the NodePool of its first machines where some are wanted. What `spec` has of a file stays,
/// where no flag says otherwise.
pub(crate) fn cluster(args: &CreateCluster, mut spec: Value, namespace: &str) -> Vec<Manifest> {
    if let Some(version) = &args.version {
        spec["version"] = json!(version);
    }
    let of_file = spec["controlPlane"]["endpoint"].as_object().cloned();
    let mut endpoint = of_file.unwrap_or_default();
    if let Some(type_) = args.endpoint {
        let type_ = match type_ {
            Endpoint::ClusterIp => "ClusterIP",
            Endpoint::NodePort => "NodePort",
            Endpoint::LoadBalancer => "LoadBalancer",
        };
        endpoint.insert("type".to_owned(), json!(type_));
    }
    if let Some(host) = &args.host {
        endpoint.insert("host".to_owned(), json!(host));
    }
    if !endpoint.is_empty() {
        spec["controlPlane"]["endpoint"] = Value::Object(endpoint);
    }
    if let Some(pods) = args.control_plane {
        spec["controlPlane"]["replicas"] = json!(pods);
    }
    if let Some(members) = args.etcd {
        spec["etcd"]["replicas"] = json!(members);
    }
    for (addon, is_on) in &args.addons {
        spec["addons"][addon]["enabled"] = json!(is_on);
    }
    if let Some(target) = &args.backup {
        spec["backup"]["target"] = json!(target);
    }
    let resource = ApiResource::erase::<TenantCluster>(&());
    let mut all = vec![manifest(resource, namespace, &args.name, spec)];
    if let Some(workers) = args.workers {
        let name = args.pool.clone();
        let pool = CreatePool {
            name: name.unwrap_or_else(|| format!("{}-workers", args.name)),
            cluster: args.name.clone(),
            workers,
            min: None,
            max: None,
            machines: args.machines.clone(),
            labels: Vec::new(),
            taints: Vec::new(),
            dry_run: args.dry_run,
            waiting: args.waiting.clone(),
        };
        all.push(self::pool(&pool, namespace));
    }
    all
}

/// The NodePool.
pub(crate) fn pool(args: &CreatePool, namespace: &str) -> Manifest {
    let mut machine = Map::new();
    if let Some(cpu) = args.machines.cpu {
        machine.insert("cpu".to_owned(), json!(cpu));
    }
    if let Some(memory) = &args.machines.memory {
        machine.insert("memory".to_owned(), json!(memory));
    }
    if let Some(image) = &args.machines.image {
        machine.insert("image".to_owned(), json!(image));
    }
    let mut spec = json!({"clusterName": args.cluster, "provider": {"kubevirt": machine}});
    match args.max {
        // How many there are is the autoscaler's from then on.
        Some(max) => {
            spec["autoscaling"] = json!({"min": args.min.unwrap_or_default(), "max": max});
        }
        None => spec["replicas"] = json!(args.workers),
    }
    for (key, value) in &args.labels {
        spec["labels"][key] = json!(value);
    }
    if !args.taints.is_empty() {
        spec["taints"] = json!(args.taints);
    }
    manifest(
        ApiResource::erase::<NodePool>(&()),
        namespace,
        &args.name,
        spec,
    )
}

fn manifest(resource: ApiResource, namespace: &str, name: &str, spec: Value) -> Manifest {
    let object = json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    });
    Manifest { resource, object }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command, Create};
    use clap::Parser as _;

    fn made(line: &str) -> Vec<Manifest> {
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        match args.command {
            Command::Create(Create::Cluster(args)) => cluster(&args, json!({}), "team-a"),
            Command::Create(Create::Pool(args)) => vec![pool(&args, "team-a")],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_was_named_is_written() {
        let made = made("covey create cluster demo --version 1.35.4");
        assert_eq!(made.len(), 1);
        let expected = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": {"name": "demo", "namespace": "team-a"}, "spec": {"version": "1.35.4"}});
        assert_eq!(made[0].object, expected);
    }

    #[test]
    fn every_flag_has_its_field_in_the_definition() {
        let line = "covey create cluster demo --version 1.35.4 --endpoint load-balancer --host demo.example.com \
--control-plane 2 --etcd 3 --backup main --addon csi=on --addon coreDNS=off --workers 2 --cpu 4 --memory 8Gi --image example.com/disk";
        let made = made(line);
        let read: TenantCluster = serde_json::from_value(made[0].object.clone()).unwrap();
        let written = serde_json::to_value(read.spec).unwrap();
        for (pointer, value) in [
            ("/controlPlane/endpoint/type", json!("LoadBalancer")),
            ("/controlPlane/endpoint/host", json!("demo.example.com")),
            ("/controlPlane/replicas", json!(2)),
            ("/etcd/replicas", json!(3)),
            ("/backup/target", json!("main")),
            ("/addons/csi/enabled", json!(true)),
            ("/addons/coreDNS/enabled", json!(false)),
        ] {
            assert_eq!(written.pointer(pointer), Some(&value), "{pointer}");
        }
        let read: NodePool = serde_json::from_value(made[1].object.clone()).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("demo-workers"));
        let machine = read.spec.provider.unwrap().kubevirt.unwrap();
        assert_eq!((read.spec.replicas, machine.cpu), (2, 4));
        assert_eq!(machine.image.as_deref(), Some("example.com/disk"));
    }

    #[test]
    fn a_pool_of_the_autoscaler_names_no_number_of_machines() {
        let made = made(
            "covey create pool web --cluster demo --min 1 --max 5 --label tier=web --taint tier=web:NoSchedule",
        );
        let spec = &made[0].object["spec"];
        assert_eq!(spec["autoscaling"], json!({"min": 1, "max": 5}));
        assert!(spec.get("replicas").is_none());
        assert_eq!(spec["labels"], json!({"tier": "web"}));
        let taint = json!({"key": "tier", "value": "web", "effect": "NoSchedule"});
        assert_eq!(spec["taints"], json!([taint]));
    }

    #[test]
    fn a_file_is_taken_and_flags_go_before_it() {
        let file = "kind: TenantCluster\nmetadata: {name: demo}\nspec:\n  version: 1.35.4\n  etcd: {replicas: 3}\n  controlPlane:\n    endpoint: {host: a.example.com}\n";
        let spec = spec_of(file, "demo").unwrap();
        let args = "covey create cluster demo -f x --endpoint node-port --version 1.36.1";
        let parsed = Args::try_parse_from(args.split(' ')).unwrap();
        let Command::Create(Create::Cluster(args)) = parsed.command else {
            panic!("{args}");
        };
        let made = cluster(&args, spec, "team-a");
        let spec = &made[0].object["spec"];
        assert_eq!(
            (&spec["version"], &spec["etcd"]["replicas"]),
            (&json!("1.36.1"), &json!(3))
        );
        let endpoint = json!({"host": "a.example.com", "type": "NodePort"});
        assert_eq!(spec["controlPlane"]["endpoint"], endpoint);
        let other = spec_of(file, "other").unwrap_err();
        assert!(other.what.contains("called demo, and not other"), "{other}");
        for bad in [
            "a: [",
            "kind: NodePool\nspec: {}",
            "kind: TenantCluster",
            "kind: TenantCluster\nspec: {controlPlane: big}",
        ] {
            assert_eq!(spec_of(bad, "demo").unwrap_err().exit, Exit::Usage, "{bad}");
        }
        // One of them has to say it.
        assert!(Args::try_parse_from(["covey", "create", "cluster", "demo"]).is_err());
    }
}
