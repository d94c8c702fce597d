//! The identity in a backup: sealed when it has to be, kept when it cannot be made, and told where it is not.

use super::*;

fn sealed(world: &World) -> Sealed {
    world.observed.sealed.clone().unwrap()
}

fn change(world: &mut World, change: impl FnOnce(&mut TenantCluster)) {
    change(Arc::make_mut(&mut world.observed.cluster));
    let valid = validate::validate(&world.observed.cluster, &world.settings);
    world.observed.valid = Some(valid.unwrap());
}

fn label(world: &mut World, value: &str) {
    change(world, |cluster| {
        let labels = cluster.metadata.labels.get_or_insert_default();
        labels.insert("note".to_owned(), value.to_owned());
    });
}

#[test]
fn identity_is_sealed_before_the_process_is_there_and_at_rest_never_again() {
    let mut world = World::new(bucket());
    world.settle();
    assert_eq!(world.seals, 1);
    let secret = world.object("Secret", process::IDENTITY).unwrap();
    let annotations = &secret["metadata"]["annotations"];
    assert_eq!(
        annotations[process::ANNOTATION_IDENTITY_KEYS],
        sealed(&world).keys
    );
    assert_eq!(
        annotations[process::ANNOTATION_IDENTITY_WHOLE],
        sealed(&world).whole
    );
    let text = secret.to_string();
    let key = SECRETS["ca"]["ca.key"].clone();
    assert!(
        !text.contains(&String::from_utf8(key).unwrap()),
        "it is readable"
    );
    // What the pod has of it is that Secret alone.
    let deployment = world.object("Deployment", "backup").unwrap();
    let volumes = deployment["spec"]["template"]["spec"]["volumes"].to_string();
    assert!(
        volumes.contains(process::IDENTITY) && !volumes.contains("\"ca\""),
        "{volumes}"
    );
    for later in [1, 300, 86_400] {
        world.now += SignedDuration::from_secs(later);
        world.settle();
    }
    assert_eq!(world.seals, 1);
}

#[test]
fn key_that_is_turned_is_sealed_at_once_and_all_else_five_minutes_after_the_one_before() {
    let mut world = World::new(bucket());
    world.settle();
    world.now += SignedDuration::from_secs(1);
    let turned = ("client-ca-g2".to_owned(), authority("client-ca"));
    world.observed.secrets.extend([turned]);
    let before = sealed(&world);
    world.now += SignedDuration::from_secs(1);
    world.settle();
    assert_eq!(world.seals, 2);
    assert!(sealed(&world).identity.name() > before.identity.name());
    // A user changes it again and again.
    world.says(whole());
    for value in 0..299 {
        label(&mut world, &value.to_string());
        world.now += SignedDuration::from_secs(1);
        world.settle();
    }
    assert_eq!(world.seals, 2);
    world.now += SignedDuration::from_secs(1);
    world.settle();
    assert_eq!(world.seals, 3);
    let wanted = world.observed.identity(world.now).unwrap();
    assert_eq!(sealed(&world).whole, wanted.whole);
}

#[test]
fn key_counts_as_saved_once_the_target_has_the_identity_that_it_is_in() {
    let mut world = World::new(bucket());
    world.settle();
    assert_eq!(world.observed.saved_keys(world.now), None);
    world.says(whole());
    let saved = |world: &World| {
        let saved = world.observed.saved_keys(world.now);
        saved.map(|keys| keys.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(saved(&world), Some(vec![1]));
    let key = encryption_key(&[8; 32]);
    let fields = BTreeMap::from([("k2".to_owned(), key.reveal().as_bytes().to_vec())]);
    let second = ("encryption-g2".to_owned(), fields);
    world.observed.secrets.extend([second]);
    // It is not sealed yet.
    assert_eq!(saved(&world), None);
    world.now += SignedDuration::from_secs(1);
    world.settle();
    assert_eq!(world.seals, 2);
    // The process has not said that it is there.
    assert_eq!(saved(&world), None);
    world.says(whole());
    assert_eq!(saved(&world), Some(vec![1, 2]));
}

#[test]
fn target_that_lacks_it_is_told_however_often_it_changes() {
    let mut world = World::new(bucket());
    world.settle();
    world.says(whole());
    label(&mut world, "0");
    world.now += SignedDuration::from_secs(300);
    world.settle();
    assert_eq!(world.seals, 2);
    // The target has the one before, and gets no other.
    for value in 1..20 {
        label(&mut world, &value.to_string());
        world.now += SignedDuration::from_secs(60);
        let is_late = told(&world.settle()).1 == Reason::BackupLate;
        assert_eq!(is_late, value > 5, "after {value} minutes");
    }
    assert_eq!(world.seals, 2);
    world.says(whole());
    world.settle();
    assert_eq!(world.seals, 3);
}

#[test]
fn what_is_sealed_later_is_called_later_whatever_the_clock_says() {
    let mut world = World::new(bucket());
    world.settle();
    world.says(whole());
    let before = sealed(&world).identity.name();
    world.now -= SignedDuration::from_secs(3600);
    label(&mut world, "an hour ago");
    world.settle();
    assert_eq!(world.seals, 2);
    assert!(sealed(&world).identity.name() > before);
}

#[test]
fn tenant_cluster_of_unheard_of_length_holds_nothing_else_up() {
    let mut world = World::new(bucket());
    label(&mut world, &"x".repeat(600_000));
    world.settle();
    assert!(world.object("Deployment", "backup").is_some());
    world.says(whole());
    let (value, reason, message) = told(&world.settle());
    let late = (ConditionStatus::False, Reason::BackupLate);
    assert_eq!((value, reason), late);
    assert!(message.ends_with("more than are sealed"), "{message}");
}

#[test]
fn authority_or_key_that_is_lost_or_spoilt_leaves_what_is_sealed() {
    let mut world = World::new(bucket());
    world.settle();
    world.says(whole());
    let (before, writes) = (sealed(&world), world.writes);
    for name in SECRETS.keys() {
        for data in [None, Some(BTreeMap::new()), Some(authority("another"))] {
            world.observed.secrets = SECRETS.clone();
            world.observed.secrets.remove(name);
            let is_another = data.as_ref().is_some_and(|data| !data.is_empty());
            if is_another && AUTHORITIES.contains(&name.as_str()) {
                // A whole authority in its place is another identity, which is kept beside this one.
                continue;
            }
            world
                .observed
                .secrets
                .extend(data.map(|data| (name.clone(), data)));
            let plan = world.settle();
            assert_eq!(
                (sealed(&world), world.writes),
                (before.clone(), writes),
                "{name}"
            );
            assert_eq!(told(&plan).1, Reason::BackedUp, "{name}");
        }
    }
    // Where none was ever sealed it is said what is missing.
    let mut world = World::new(bucket());
    world.observed.secrets.remove("ca");
    world.settle();
    world.says(whole());
    let (value, reason, message) = told(&world.settle());
    assert_eq!(
        (value, reason),
        (ConditionStatus::False, Reason::BackupLate)
    );
    assert!(
        message.ends_with("Secret ca is missing or cannot be read"),
        "{message}"
    );
}

#[test]
fn another_recovery_key_gets_the_identity_sealed_for_it() {
    let mut world = World::new(bucket());
    world.settle();
    let before = sealed(&world);
    world.observed.wrapping_key = Some(vec![8; 64]);
    world.settle();
    assert_eq!(world.seals, 2);
    assert_ne!(sealed(&world).keys, before.keys);
}

#[test]
fn backup_is_ready_with_its_identity_alone_and_told_late_after_five_minutes() {
    let mut world = World::new(bucket());
    world.settle();
    world.says(whole());
    assert_eq!(told(&world.settle()).1, Reason::BackedUp);
    let of = |identity: Option<&str>, trouble: Option<&str>| Report {
        identity: identity.map(str::to_owned),
        trouble: trouble.map(|what| Standing {
            what: what.to_owned(),
            since_ms: whole().now_ms,
        }),
        ..whole()
    };
    let older = "000000000000001-".to_owned() + &"0".repeat(64);
    // None yet; then it has one of a moment ago.
    world.observed.report = Some(Ok(of(None, None)));
    let (_, reason, message) = told(&world.settle());
    assert_eq!(reason, Reason::BackupStarting);
    assert!(message.starts_with("authorities, keys"), "{message}");
    world.observed.report = Some(Ok(of(Some(&older), None)));
    assert_eq!(told(&world.settle()).1, Reason::BackedUp);
    world.now += SignedDuration::from_secs(301);
    for (identity, trouble, why) in [
        (Some(older.as_str()), None, "the process does not say why"),
        (
            None,
            Some("create: no place is left"),
            "create: no place is left",
        ),
    ] {
        world.observed.report = Some(Ok(of(identity, trouble)));
        let (value, reason, message) = told(&world.settle());
        assert_eq!(
            (value, reason),
            (ConditionStatus::False, Reason::BackupLate)
        );
        assert!(message.ends_with(why), "{message}");
    }
}
