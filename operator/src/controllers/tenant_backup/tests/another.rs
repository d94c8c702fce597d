//! The backup of a tenant cluster that is to become another one.
//!
//! Invariant: nothing is backed up while there is no etcd, and nothing of then stays once it is over.

use super::*;

#[test]
fn backup_of_another_one_is_read_while_this_one_awaits_it_and_what_it_had_of_it_goes_at_the_end() {
    use clap::Parser as _;
    use etcd_agent::args::Args;
    let mut world = World::new(bucket());
    let status = |world: &mut World, status: Value| {
        let cluster = Arc::make_mut(&mut world.observed.cluster);
        let mut whole = serde_json::to_value(cluster.status.as_ref()).unwrap();
        whole["etcd"] = status["etcd"].clone();
        whole["restore"] = status["restore"].clone();
        cluster.status = serde_json::from_value(whole).unwrap();
    };
    status(&mut world, json!({}));
    Arc::make_mut(&mut world.observed.cluster)
        .spec
        .etcd
        .bootstrap = api::tenant_cluster::Bootstrap::Restore;
    world.observed.awaited = Some(("then".to_owned(), "cdf8".to_owned()));
    let args = |world: &World| -> Vec<String> {
        let live = world.object("Deployment", "backup").unwrap();
        let args = &live["spec"]["template"]["spec"]["containers"][0]["args"];
        let args: Vec<String> = serde_json::from_value(args.clone()).unwrap();
        let all = std::iter::once("etcd-agent".to_owned()).chain(args.clone());
        assert!(Args::try_parse_from(all).is_ok(), "{args:?}");
        args
    };
    assert_eq!(told(&world.settle()).1, Reason::BackupStarting);
    assert!(args(&world).contains(&"--tenant=then".to_owned()));
    assert!(!args(&world).iter().any(|arg| arg.starts_with("--data-key")));
    assert!(
        world.object("Secret", "backup-keys").is_none(),
        "nothing is backed up yet"
    );

    let valid = world.observed.valid.clone().unwrap();
    let secret = tenant_cp::backup::source::secret(&valid, "then", &[1; 32], b"{}");
    world.observed.objects.insert(secret.key(), secret.value);
    world.settle();
    assert!(args(&world).iter().any(|arg| arg.starts_with("--data-key")));
    let pod = &world.object("Deployment", "backup").unwrap()["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let keys = volumes
        .iter()
        .find(|volume| volume["secret"]["secretName"] == "restore-source");
    let items = &keys.unwrap()["secret"]["items"];
    assert_eq!(*items, json!([{ "key": "data-key", "path": "data-key" }]));

    // While data is built it has no pod, and afterwards it backs this one up.
    let begun = json!({ "name": "r", "uid": "r", "moment": "latest", "clusterID": "cdf8", "sourceUID": "then",
        "revision": 7, "bump": 9, "since": "2026-11-26T20:00:00Z", "quiet": true });
    status(&mut world, json!({ "restore": begun }));
    world.settle();
    let replicas =
        |world: &World| world.object("Deployment", "backup").unwrap()["spec"]["replicas"].clone();
    assert_eq!(replicas(&world), 0);
    let mut prepared = begun;
    prepared["switched"] = json!(true);
    prepared["prepared"] = json!(true);
    let etcd = json!({ "clusterID": "8e9e", "members": [] });
    status(&mut world, json!({ "restore": prepared, "etcd": etcd }));
    world.observed.awaited = None;
    world.settle();
    assert_eq!(replicas(&world), 1);
    assert!(args(&world).contains(&"run".to_owned()));
    assert!(world.object("Secret", "restore-source").is_some());
    status(&mut world, json!({ "etcd": etcd }));
    world.settle();
    assert!(world.object("Secret", "restore-source").is_none());
}
