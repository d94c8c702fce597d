//! Laws of a grant with a Secret: one key for each certificate, renewed as long as the grant is there, and none afterwards.

use super::*;

fn kept(seconds: u32) -> World {
    let mut world = World::new("view", seconds);
    world.grant.spec.request = None;
    world.grant.spec.secret_name = Some("flux-kubeconfig".to_owned());
    world.secret.0 = Held::Absent;
    world
}

fn until(world: &World) -> Timestamp {
    match &world.secret.0 {
        Held::Own(Some(there)) => there.until,
        other => panic!("{other:?}"),
    }
}

#[test]
fn key_is_made_once_and_another_after_two_thirds_of_its_life_without_end() {
    let mut world = kept(3600);
    world.settle();
    world.says(
        Reason::GrantIssued,
        "covey:jane has the rights of the ClusterRole view by Secret flux-kubeconfig",
    );
    assert_eq!((world.keys, world.bindings), (1, 1));
    // Nothing that is forgotten makes another key.
    world.grant.status = None;
    world.settle();
    assert_eq!(world.keys, 1);
    for keys in 1..60 {
        assert_eq!(world.keys, keys);
        let before = until(&world);
        world.wait(2399);
        world.settle();
        assert_eq!(world.keys, keys, "not before two thirds are over");
        world.wait(2);
        world.settle();
        assert!(until(&world) > before && world.is_ready());
    }
    assert_eq!(world.bindings, 1);
    assert!(world.plan().again <= Some(SignedDuration::from_mins(10)));
}

#[test]
fn crash_between_secret_and_status_makes_no_second_key() {
    let mut world = kept(3600);
    world.step();
    let status = world.grant.status.take().unwrap();
    world.settle();
    let again = world.grant.status.clone().unwrap();
    assert_eq!((world.keys, again.certificate), (1, status.certificate));
    assert_eq!(again.not_after, status.not_after);
}

#[test]
fn renewing_goes_on_while_the_spec_of_the_tenant_cluster_is_invalid_and_ceilings_are_lower() {
    let mut world = kept(3600);
    world.settle();
    world.cluster = Some(cluster(&json!({ "conditions": [{
        "type": "Degraded", "status": "True", "reason": "InvalidSpec", "message": "",
        "lastTransitionTime": "2027-01-31T12:00:00Z",
    }] })));
    world.settings.most_seconds = 600;
    world.others = 1000;
    world.wait(2500);
    world.settle();
    assert_eq!(world.keys, 2);
    assert!(world.is_ready());
    let left = until(&world).duration_since(world.now);
    assert_eq!(
        left,
        SignedDuration::from_secs(600),
        "no longer than allowed now"
    );
    // An authority that was turned signs anew at once.
    world.cluster = Some(turned(2));
    world.settle();
    assert_eq!((world.keys, world.secret.1), (3, 2));
}

#[test]
fn address_that_changes_keeps_the_key() {
    let mut world = kept(3600);
    world.settle();
    if let Held::Own(Some(there)) = &mut world.secret.0 {
        there.is_current = false;
    }
    world.settle();
    assert!(matches!(&world.secret.0, Held::Own(Some(there)) if there.is_current));
    assert_eq!(world.keys, 1);
    // One that somebody deleted, or made unreadable, comes back with another.
    for held in [Held::Absent, Held::Own(None)] {
        world.secret.0 = held;
        world.settle();
        assert!(matches!(world.secret.0, Held::Own(Some(_))));
    }
    assert_eq!(world.keys, 3);
}

#[test]
fn deleted_grant_takes_the_key_out_of_the_secret_though_nobody_answers_inside() {
    let mut world = kept(3600);
    world.settle();
    let mut silent = kept(3600);
    silent.settle();
    world.delete();
    let last = world.step();
    assert!(matches!(
        last.actions.as_slice(),
        [
            Action::Unbind { .. },
            Action::EmptySecret,
            Action::RemoveFinalizer
        ]
    ));
    assert_eq!(last.notice.unwrap().reason, Reason::GrantRevoked.as_str());
    silent.answers = false;
    silent.delete();
    silent.settle();
    silent.says(Reason::Deleting, "end once that answers");
    assert_eq!(silent.secret.0, Held::Own(None));
    assert!(!silent.is_gone);
    // Every certificate that was signed before has ended by then.
    silent.wait(3600 + 299);
    silent.settle();
    assert!(!silent.is_gone);
    silent.wait(1);
    silent.settle();
    assert!(silent.is_gone);
}

#[test]
fn secret_of_somebody_else_is_left_as_it_is_and_nobody_let_in() {
    let theirs = Held::Foreign("it is not this grant's".to_owned());
    let mut world = kept(3600);
    world.secret.0 = theirs.clone();
    world.settle();
    world.says(Reason::GrantSecretTaken, "not this grant's");
    assert_eq!((world.keys, world.binding.as_ref()), (0, None));
    assert_eq!(world.secret.0, theirs);
    world.secret.0 = Held::Absent;
    world.settle();
    assert!(world.is_ready());
    // Later, too.
    world.secret.0 = theirs;
    world.settle();
    world.says(Reason::GrantSecretTaken, "not this grant's");
    assert_eq!(world.binding, None);
}

#[test]
fn what_cannot_be_renewed_stands_until_it_ends_and_is_told_then() {
    let mut world = kept(600);
    world.settle();
    world.cluster = Some(asleep());
    world.wait(599);
    world.settle();
    assert!(world.is_ready());
    world.wait(1);
    world.settle();
    world.says(Reason::GrantWaiting, "covey wake");
    assert!(is_concerned(&world.grant, world.cluster.as_ref().unwrap()));
    world.cluster = Some(cluster(&json!({})));
    // No right on Secrets comes back with the first tenant cluster of a namespace.
    let secret = std::mem::take(&mut world.secret.0);
    world.settle();
    world.says(Reason::GrantWaiting, "cannot be read");
    world.secret.0 = secret;
    world.settle();
    assert!(world.is_ready());
    assert_eq!(world.keys, 2);
    // Taken away with the profile.
    world.settings.enabled = false;
    world.settle();
    assert_eq!(
        (&world.secret.0, world.binding.as_ref()),
        (&Held::Own(None), None)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn nobody_has_a_key_longer_than_the_grant_is_there(all in prop::collection::vec(happens(), 0..24)) {
        let mut world = kept(3600);
        for one in all {
            let keys = world.keys;
            let waits = matches!(one, Happens::Wait(_) | Happens::Turned | Happens::Answers | Happens::Wakes);
            world.happen(one);
            world.settle();
            prop_assert!(world.keys <= keys + 1);
            prop_assert!(waits || keys == 0 || world.keys == keys, "{one:?}");
            if world.is_ready() && !world.is_gone {
                prop_assert!(until(&world) > world.now);
                let is_asked = world.answers && world.cluster.as_ref().is_some_and(|it| !is_asleep(it));
                prop_assert!(!is_asked || world.binding.is_some());
            }
            if world.grant.metadata.deletion_timestamp.is_some() {
                prop_assert!(!matches!(world.secret.0, Held::Own(Some(_))));
            }
            if world.is_gone {
                return Ok(());
            }
        }
        world.delete();
        world.wait(8000);
        world.settle();
        prop_assert!(world.is_gone);
    }
}
