//! Every field of a NodePool is set, set wrong, and set back: the same spec ends in the same Machines.
//!
//! The fields and their values are out of the schema ([`fields`](crate::controllers::fields)), so a field
//! that is added is among them, or fails here.

use tenant_cp::{Settings, validate};

use super::*;
use crate::controllers::fields::{Schema, differences, each};

/// A value where the one of the documentation is abridged, or is what every pool has.
fn value(schema: &Schema, path: &str) -> Value {
    match path {
        "sshAuthorizedKeys" => json!(["ssh-ed25519 AAAAC3NzaC1lZDI1 jane@example.com"]),
        "version" => json!("1.34.4"),
        _ => schema.example(path),
    }
}

fn generous() -> Settings {
    let settings = json!({
        "allowedMachineImages": ["registry.example.com"],
        "providers": { "kubevirt": { "allowed": {
            "nodeLabels": ["topology.kubernetes.io/zone"], "taints": ["example.com/control-planes", "example.com/gpus"],
            "devices": ["nvidia.com/GP102GL_Tesla_P40", "intel.com/qat"], "dedicatedCpus": true,
            "hugePages": true, "disks": "1Ti", "networks": ["networks/storage"],
        } } },
    });
    serde_json::from_value(settings).unwrap()
}

fn with_spec(world: &World, spec: &Value) -> Option<api::NodePool> {
    let mut object = serde_json::to_value(&world.pool).unwrap();
    object["spec"] = spec.clone();
    serde_json::from_value(object).ok()
}

fn said(world: &World, old: Option<&api::NodePool>, new: &api::NodePool) -> Vec<String> {
    let clusters: Vec<_> = world.cluster.iter().collect();
    let problems = validate::admit_pool(old, new, &clusters, &generous());
    problems.iter().map(ToString::to_string).collect()
}

/// All machines of before go where the change is for those alone that are made afterwards.
fn change(world: &mut World, pool: &api::NodePool, anew: bool) {
    world.pool.spec = pool.spec.clone();
    *world.pool.metadata.generation.as_mut().unwrap() += 1;
    if anew {
        world.machines.clear();
    }
    world.comes_to_rest();
}

/// What the Machines are, whatever they are called.
fn machines(world: &World) -> Vec<Value> {
    let machines = world.machines.iter();
    machines.map(|machine| json!(machine.spec)).collect()
}

#[track_caller]
fn same(path: &str, when: &str, found: &[Value], wanted: &[Value]) {
    let differences = differences(&json!(found), &json!(wanted));
    assert_eq!(differences, [""; 0], "{path}, {when}");
}

#[test]
fn same_spec_ends_in_the_same_machines_whatever_was_before() {
    let schema = Schema::of("NodePool");
    let base = serde_json::to_value(&World::new(1, &json!({})).pool.spec).unwrap();
    let rest = |spec: &Value| {
        let mut world = World::new(1, &json!({}));
        world.pool = with_spec(&world, spec).unwrap();
        world.comes_to_rest();
        world
    };
    // A field of another provider is set in a pool of its own, and one of a location in a pool of the other form.
    let mut hosts = base.clone();
    hosts["provider"] = json!({ "static": {} });
    let mut cloud = base.clone();
    cloud["provider"] = json!({ "hetzner": { "configName": "h", "types": ["cx22"] } });
    let mut google = base.clone();
    google["provider"] = json!({ "gcp": { "configName": "g", "types": ["e2-medium"] } });
    let mut azure = base.clone();
    azure["provider"] = json!({ "azure": { "configName": "a", "types": ["Standard_D2s_v5"] } });
    let mut amazon = base.clone();
    amazon["provider"] = json!({ "aws": { "configName": "a", "types": ["m7i.large"] } });
    let spread = |of: &Value| {
        let mut spec = of.clone();
        let provider = spec["provider"].take();
        spec.as_object_mut().unwrap().remove("provider");
        spec["locations"] = json!([{ "name": "north", "weight": 1, "provider": provider }]);
        json!(with_spec(&World::new(1, &json!({})), &spec).unwrap().spec)
    };
    let spreads = [&base, &hosts, &cloud, &google, &azure, &amazon].map(spread);
    let plain = [base, hosts, cloud, google, azure, amazon];
    each(&schema, |path| {
        let of = match path {
            path if path.contains("provider.static") => 1,
            path if path.contains("provider.hetzner") => 2,
            path if path.contains("provider.gcp") => 3,
            path if path.contains("provider.azure") => 4,
            path if path.contains("provider.aws") => 5,
            _ => 0,
        };
        let base = match path.starts_with("locations") {
            true => &spreads[of],
            false => &plain[of],
        };
        let fresh = machines(&rest(base));
        assert_eq!(fresh.len(), 1);
        if schema.unchangeable(path).is_some() {
            let sentence = schema.unchangeable(path).unwrap();
            assert!(
                sentence.contains("; "),
                "{path}: \"{sentence}\" says not what to do"
            );
            return;
        }
        let valid = schema.with(base, path, &value(&schema, path));
        assert_eq!(
            schema.refusal(&valid),
            None,
            "{path}: its Example: is refused"
        );
        let mut world = rest(base);
        let new = with_spec(&world, &valid);
        let new = new.unwrap_or_else(|| panic!("{path}: its Example: cannot be read"));
        assert_eq!(
            said(&world, None, &new),
            [""; 0],
            "{path}: its Example: is refused"
        );
        assert_eq!(said(&world, Some(&world.pool), &new), [""; 0], "{path}");
        let anew = schema.is_for_new_machines(path);
        change(&mut world, &new, anew);
        assert_eq!(world.condition("Ready").0, "True", "{path}");
        assert_eq!(
            machines(&world),
            machines(&rest(&valid)),
            "{path}, set later"
        );
        for (what, wrong) in schema.mistakes(path) {
            let when = format!(
                "{what}: {}",
                wrong.to_string().chars().take(80).collect::<String>()
            );
            let spec = schema.with(&valid, path, &wrong);
            let refused = schema.refusal(&spec);
            let Some(new) = with_spec(&world, &spec) else {
                assert!(
                    refused.is_some(),
                    "{path}, {when}: nobody refuses what cannot be read"
                );
                continue;
            };
            let problems = said(&world, Some(&world.pool), &new);
            assert!(
                refused.is_some() || !problems.is_empty(),
                "{path}, {when}: it is let in"
            );
        }
        let old = with_spec(&world, base).unwrap();
        assert_eq!(
            said(&world, Some(&world.pool), &old),
            [""; 0],
            "{path}, back"
        );
        change(&mut world, &old, anew);
        same(path, "set back", &machines(&world), &fresh);
        assert_eq!(world.condition("Ready").0, "True", "{path}, set back");
    });
}
