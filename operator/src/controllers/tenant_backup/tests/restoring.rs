//! The backup while its etcd is restored in place.

use super::*;

#[test]
fn process_ends_while_etcd_is_restored_and_comes_back_as_it_was() {
    let mut world = World::new(bucket());
    world.settle();
    world.says(whole());
    let template = |world: &World| {
        let live = world.object("Deployment", process::BACKUP).unwrap();
        (
            live["spec"]["replicas"].clone(),
            live["spec"]["template"].clone(),
        )
    };
    let before = template(&world);
    assert_eq!(before.0, 1);
    let holding = |prepared: bool| {
        let mut cluster = cluster(&json!({ "target": "main" }));
        let restore = api::tenant_cluster::RestoreProgress {
            quiet: true,
            prepared,
            ..Default::default()
        };
        cluster.status.get_or_insert_default().restore = Some(restore);
        Arc::new(cluster)
    };
    world.observed.cluster = holding(false);
    let plan = world.settle();
    assert_eq!(template(&world), (json!(0), before.1.clone()));
    let Some(Said::Is { value, reason, .. }) = plan.said else {
        panic!("{plan:?}");
    };
    assert_eq!(
        (value, reason),
        (ConditionStatus::Unknown, Reason::Restoring)
    );
    world.observed.cluster = holding(true);
    world.settle();
    assert_eq!(template(&world), before);
}
