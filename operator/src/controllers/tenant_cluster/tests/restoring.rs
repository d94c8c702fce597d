//! A tenant cluster that is brought back in place, by the plan that is carried out: crash after every write, failures on the
//! way, and what is said.
//!
//! Long because every way through a restore begins from the same tenant cluster.
//! Invariant: nothing is built while anything runs that could write, and it ends on the old data or on all of the new.

use api::restore::Orphans;

use super::world::Play;
use super::*;
use crate::controllers::tenant_cluster::observed::restore::Balancer;
use crate::restoring::Mark;

mod into;

const NEW: &str = "abcdabcdabcdabcd";
const OLD: &str = "cdf818194e3a8c32";
/// More reconciles than a restore takes.
const MOST: usize = 40;

fn backed_up(members: i32) -> World {
    let mut world = ready(json!({
        "version": "1.35.4", "etcd": { "replicas": members }, "backup": { "target": "main" },
        "addons": { "cloudController": { "enabled": true } },
    }));
    world.list_due = true;
    world.settle();
    assert_eq!(cluster_id(&world).as_deref(), Some(OLD));
    world.list_due = false;
    world
}

fn cluster_id(world: &World) -> Option<String> {
    world.cluster.status.clone()?.etcd?.cluster_id
}

fn facts(world: &World) -> Option<api::tenant_cluster::RestoreProgress> {
    world.cluster.status.clone()?.restore
}

fn balancers(world: &World) -> &BTreeMap<String, Balancer> {
    &world.restore.as_ref().unwrap().balancers
}

fn jobs(world: &World, prefix: &str) -> usize {
    let jobs = world.objects.keys().filter(|key| key.kind == "Job");
    jobs.filter(|key| key.name.starts_with(prefix)).count()
}

/// What the API of the tenant cluster does, and who cares for the Restore; with the laws that hold at each moment.
fn others(world: &mut World, confirms: bool) {
    let runs = |kind: &str, name: &str| world.runs(kind, name);
    let runs_ccm = runs("Deployment", "ccm");
    let any = runs("StatefulSet", "etcd")
        || runs("Deployment", "control-plane")
        || runs("Deployment", "controllers")
        || runs_ccm;
    let facts = facts(world);
    let switched = facts.as_ref().is_none_or(|facts| facts.switched);
    let given_up = facts.as_ref().is_some_and(|facts| facts.given_up.is_some());
    assert!(
        !any || switched || given_up || jobs(world, "restore-") == 0,
        "somebody may write"
    );
    if facts
        .as_ref()
        .is_some_and(|facts| facts.switched && !facts.prepared)
    {
        assert!(
            !runs("Deployment", "control-plane"),
            "over Leases of before"
        );
    }
    let is_unread = |facts: &api::tenant_cluster::RestoreProgress| {
        facts.survivor.is_some() && facts.salvaged.is_none()
    };
    let is_built = world.objects.keys().any(|key| {
        key.kind == "Job" && key.name.starts_with("restore-") && !key.name.ends_with("-survivor")
    });
    assert!(
        !is_built || !facts.as_ref().is_some_and(is_unread),
        "what is left is passed over"
    );
    world.tenant_up = runs("StatefulSet", "etcd") && runs("Deployment", "control-plane");
    world.play_jobs();
    let is_new = cluster_id(world).as_deref() == Some(NEW);
    if is_new && world.tenant_up && runs_ccm {
        world.sweep();
    }
    let ready = world.condition("Ready").0 == "True";
    let play = world.restore.as_mut().unwrap();
    if let Some(facts) = &facts {
        if facts.given_up.is_some() {
            play.say("RestoreGivenUp", "False");
        } else if facts.prepared && ready {
            play.say("Restored", "True");
        }
        if let Some(restore) = play.restore.as_mut().filter(|_| confirms && facts.prepared) {
            restore.spec.confirmed = true;
            restore.spec.orphans = Orphans::Delete;
        }
    }
}

/// Reconciles, of which all together do so many writes before the operator dies once; until nothing is left to do.
fn go_on(world: &mut World, mut budget: usize, confirms: bool) -> bool {
    let mut died = false;
    let mut quiet = 0;
    for _ in 0..MOST {
        let before = world.writes;
        let lived = match died {
            true => world.reconcile(&mut usize::MAX.clone()),
            false => world.reconcile(&mut budget),
        };
        died |= !lived;
        others(world, confirms);
        quiet = if before == world.writes && lived {
            quiet + 1
        } else {
            0
        };
        if quiet == 3 {
            return died;
        }
    }
    panic!("it never comes to rest: {:?}", facts(world));
}

fn all_run(world: &World) -> bool {
    let deployments = ["control-plane", "controllers", "ccm"];
    let all = deployments
        .iter()
        .all(|name| world.runs("Deployment", name));
    all && world.runs("StatefulSet", "etcd") && world.condition("Ready").0 == "True"
}

#[test]
fn restore_ends_the_same_wherever_the_operator_dies() {
    for members in [1, 3] {
        let whole = backed_up(members);
        let mut least = 0;
        for budget in 0.. {
            let mut world = whole.clone();
            world.restore = Some(Play::new());
            let died = go_on(&mut world, budget, true);
            assert_eq!(cluster_id(&world).as_deref(), Some(NEW), "{budget}");
            assert!(
                facts(&world).is_none() && all_run(&world),
                "{budget}: {:?}",
                facts(&world)
            );
            let (built, removed) = (jobs(&world, "restore-"), jobs(&world, "restored-"));
            let wanted = usize::try_from(members).unwrap();
            assert_eq!((built, removed), (wanted, wanted), "{budget}");
            let balancers = world.restore.as_ref().map(|play| &play.balancers);
            assert!(balancers.unwrap().is_empty(), "{budget}: kept for ever");
            let etcd = world.cluster.status.clone().unwrap().etcd.unwrap();
            assert!(etcd.members.iter().all(|member| member.started), "{etcd:?}");
            if !died {
                break;
            }
            least = budget;
        }
        assert!(least > 15, "{least} writes are fewer than it must have");
    }
}

#[test]
fn what_cannot_be_built_is_given_up_and_the_old_data_serves_wherever_the_operator_dies() {
    let whole = backed_up(3);
    for budget in 0.. {
        let mut world = whole.clone();
        world.restore = Some(Play {
            failing: Some("etcd-1"),
            ..Play::new()
        });
        let died = go_on(&mut world, budget, true);
        assert_eq!(cluster_id(&world).as_deref(), Some(OLD), "{budget}");
        assert!(
            facts(&world).is_none() && all_run(&world),
            "{budget}: {:?}",
            facts(&world)
        );
        assert_eq!(jobs(&world, "restore"), 0, "{budget}");
        assert_eq!(balancers(&world)["lb-late"].mark, Mark::None, "{budget}");
        if !died {
            break;
        }
    }
}

#[test]
fn keys_that_were_dropped_are_read_again_until_all_that_came_back_is_written_with_the_new_one() {
    let mut world = backed_up(1);
    rotation_at_rest::turn(&mut world, 2, false);
    world.settle();
    assert!(rotation_at_rest::is_dropped(&world, "encryption"));
    // What comes back was written with the one of before.
    for key in world.at_rest.values_mut() {
        *key = 1;
    }
    world.restore = Some(Play::new());
    go_on(&mut world, usize::MAX, false);
    assert!(all_run(&world) && facts(&world).is_some_and(|facts| facts.prepared));
    assert!(!rotation_at_rest::is_dropped(&world, "encryption"));
    let told = world.cluster.status.clone().unwrap().rotation;
    assert_eq!(told[0].believed, [1, 2]);
    assert!(
        world.at_rest.values().all(|key| *key == 1),
        "it may go back"
    );
    go_on(&mut world, usize::MAX, true);
    world.settle();
    assert!(facts(&world).is_none() && all_run(&world));
    assert!(world.at_rest.values().all(|key| *key == 2));
    assert!(rotation_at_rest::is_dropped(&world, "encryption"));
}

#[test]
fn kms_of_then_is_read_again_until_all_that_came_back_is_written_anew() {
    let mut world = backed_up(1);
    kms::has_plugins(&mut world);
    kms::ask(&mut world, Some(("vault", 1)));
    world.settle();
    kms::ask(&mut world, None);
    world.settle();
    assert_eq!(encrypted::file(&world).kms.all().next(), None);
    for key in world.at_rest.values_mut() {
        *key = 1001;
    }
    world.restore = Some(Play::new());
    go_on(&mut world, usize::MAX, false);
    assert!(all_run(&world) && facts(&world).is_some_and(|facts| facts.prepared));
    let reads = encrypted::file(&world).kms.reads;
    let reads: Vec<_> = reads.iter().map(ToString::to_string).collect();
    assert_eq!(reads, ["vault-g1"]);
    go_on(&mut world, usize::MAX, true);
    world.settle();
    assert!(facts(&world).is_none() && all_run(&world));
    assert_eq!(encrypted::file(&world).kms.all().next(), None);
    assert!(world.at_rest.values().all(|key| *key == 1));
}

#[test]
fn kinds_that_are_encrypted_no_more_are_read_again_until_all_that_came_back_is_plain() {
    let mut world = backed_up(1);
    encrypted::list(&mut world, &["secrets", "configmaps"]);
    world.settle();
    encrypted::list(&mut world, &["secrets"]);
    world.settle();
    assert!(encrypted::file(&world).is_none());
    let come_back = |world: &mut World| {
        for ((kind, _), key) in &mut world.others_at_rest {
            *key = (*kind == "configmaps").then_some(1);
        }
    };
    come_back(&mut world);
    world.restore = Some(Play::new());
    go_on(&mut world, usize::MAX, false);
    assert!(all_run(&world) && facts(&world).is_some_and(|facts| facts.prepared));
    let now = encrypted::file(&world);
    assert_eq!(now.read, encrypted::set(&["configmaps"]));
    assert!(
        world.others_at_rest.values().any(Option::is_some),
        "it may go back"
    );
    go_on(&mut world, usize::MAX, true);
    world.settle();
    assert!(facts(&world).is_none() && all_run(&world));
    assert!(encrypted::file(&world).is_none());
    assert!(world.others_at_rest.values().all(Option::is_none));
}

#[test]
fn data_of_before_is_kept_until_it_is_confirmed() {
    let mut world = backed_up(3);
    world.restore = Some(Play::new());
    go_on(&mut world, usize::MAX, false);
    assert!(all_run(&world) && jobs(&world, "restored-") == 0);
    assert!(facts(&world).is_some_and(|facts| facts.prepared));
    assert_eq!(balancers(&world)["lb-late"].mark, Mark::Orphan);
    // An outage now is one: nothing is stopped for it.
    world.tenant_up = false;
    world.reconcile(&mut usize::MAX.clone());
    assert!(world.runs("Deployment", "control-plane"));
    assert_eq!(world.condition("Ready").1, "ApiUnreachable");
    others(&mut world, true);
    world.reconcile(&mut usize::MAX.clone());
    assert_eq!(jobs(&world, "restored-"), 3);
    // Nobody tells that they are over.
    let next = plan(&world.observe(), &world.settings, world.now);
    assert!(next.requeue_after.is_some_and(|after| after.as_secs() <= 2));
    go_on(&mut world, usize::MAX, true);
    assert!(facts(&world).is_none() && jobs(&world, "restored-") == 3);
}

#[test]
fn it_says_what_it_waits_for_and_stops_nothing_that_could_still_be_needed() {
    let mut world = backed_up(1);
    world.restore = Some(Play::new());
    world
        .restore
        .as_mut()
        .unwrap()
        .lingering
        .insert("control-plane");
    for _ in 0..6 {
        world.reconcile(&mut usize::MAX.clone());
        world.tenant_up = false;
    }
    assert!(!world.runs("Deployment", "control-plane") && world.runs("StatefulSet", "etcd"));
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "Restoring".into())
    );
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "Restoring".into())
    );
    let conditions = world.cluster.status.clone().unwrap().conditions;
    let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
    assert!(
        ready.message.contains("pods of the control plane"),
        "{ready:?}"
    );
    let plan = plan(&world.observe(), &world.settings, world.now);
    assert!(plan.requeue_after.is_some_and(|after| after.as_secs() <= 2));
    // Pods that never end are waited for for so long, and then it serves what it had.
    world.now = world
        .now
        .saturating_add(jiff::SignedDuration::from_mins(30))
        .unwrap();
    go_on(&mut world, usize::MAX, true);
    assert_eq!(cluster_id(&world).as_deref(), Some(OLD));
    assert!(facts(&world).is_none() && all_run(&world));
}

#[test]
fn restore_that_is_deleted_before_members_run_on_it_is_given_up_and_later_is_as_if_confirmed() {
    let mut early = backed_up(1);
    early.restore = Some(Play::new());
    early.reconcile(&mut usize::MAX.clone());
    early.restore.as_mut().unwrap().restore = None;
    go_on(&mut early, usize::MAX, false);
    assert!(all_run(&early) && facts(&early).is_none());
    assert_eq!(cluster_id(&early).as_deref(), Some(OLD));

    let mut late = backed_up(1);
    late.restore = Some(Play::new());
    go_on(&mut late, usize::MAX, false);
    late.restore.as_mut().unwrap().restore = None;
    go_on(&mut late, usize::MAX, false);
    assert!(all_run(&late) && facts(&late).is_none() && jobs(&late, "restored-") == 1);
    assert_eq!(cluster_id(&late).as_deref(), Some(NEW));
    assert_eq!(balancers(&late)["lb-late"].mark, Mark::Orphan, "it is lost");
}

#[test]
fn load_balancer_that_is_not_known_any_more_is_kept_until_it_is_decided_wherever_the_operator_dies()
{
    let decide = |world: &mut World, orphans| {
        let play = world.restore.as_mut().unwrap();
        let spec = &mut play.restore.as_mut().unwrap().spec;
        (spec.confirmed, spec.orphans) = (true, orphans);
    };
    let mut restored = backed_up(1);
    restored.restore = Some(Play::new());
    go_on(&mut restored, usize::MAX, false);
    for (orphans, is_over, is_there) in [
        (Orphans::Report, false, true),
        (Orphans::Keep, true, true),
        (Orphans::Delete, true, false),
    ] {
        for budget in 0..6 {
            let mut world = restored.clone();
            decide(&mut world, orphans);
            go_on(&mut world, budget, false);
            assert_eq!(facts(&world).is_none(), is_over, "{orphans:?} {budget}");
            let found = balancers(&world).get("lb-late");
            assert_eq!(found.is_some(), is_there, "{orphans:?} {budget}");
            assert_eq!(jobs(&world, "restored-"), usize::from(is_over));
        }
    }
    // Nobody runs who could say, or sweep.
    let mut alone = restored;
    alone.cluster.spec.addons.cloud_controller.enabled = false;
    decide(&mut alone, Orphans::Report);
    let play = alone.restore.as_mut().unwrap();
    play.balancers.get_mut("lb-late").unwrap().mark = Mark::Unknown;
    for _ in 0..MOST {
        alone.reconcile(&mut usize::MAX.clone());
        alone.play_jobs();
    }
    assert!(facts(&alone).is_none());
    assert_eq!(balancers(&alone)["lb-late"].mark, Mark::Unknown);
}

#[test]
fn number_of_members_that_changes_meanwhile_waits_until_it_is_confirmed() {
    for (members, wanted) in [(1, 3), (3, 1)] {
        let mut world = backed_up(members);
        world.restore = Some(Play::new());
        world.reconcile(&mut usize::MAX.clone());
        assert!(facts(&world).is_some(), "it is begun");
        world.cluster.spec.etcd.replicas = wanted;
        go_on(&mut world, usize::MAX, false);
        assert_eq!(cluster_id(&world).as_deref(), Some(NEW));
        assert_eq!(i32::try_from(jobs(&world, "restore-")), Ok(members));
        assert!(facts(&world).is_some_and(|facts| facts.prepared));
        let told = world.condition("Progressing");
        assert_eq!(told, ("True".into(), "ResizingEtcd".into()));
        world.restore.as_mut().unwrap().restore = None;
        go_on(&mut world, usize::MAX, false);
        assert!(facts(&world).is_none(), "deleted, which confirms it");
        assert_eq!(i32::try_from(jobs(&world, "restored-")), Ok(members));
        let set = &world.objects[&Key::new("StatefulSet", NS, "etcd")];
        assert_eq!(
            set["spec"]["replicas"], 3,
            "3, or 3 until they are taken away"
        );
    }
}

#[test]
fn volumes_that_are_lost_are_made_anew_for_what_is_built_on_them() {
    let mut world = backed_up(1);
    world
        .objects
        .remove(&Key::new("PersistentVolumeClaim", NS, "data-etcd-0"));
    world.tenant_up = false;
    world.settle();
    assert_eq!(world.condition("Degraded").1, "VolumeLost");
    world.restore = Some(Play::new());
    go_on(&mut world, usize::MAX, true);
    assert_eq!(cluster_id(&world).as_deref(), Some(NEW));
    assert!(all_run(&world) && facts(&world).is_none());
    assert_ne!(world.condition("Degraded").1, "VolumeLost");
}

/// Two of three are lost, and what is left of the third is to be read.
fn left_of_three() -> World {
    let mut world = backed_up(3);
    for number in [0, 2] {
        let claim = format!("data-etcd-{number}");
        world
            .objects
            .remove(&Key::new("PersistentVolumeClaim", NS, &claim));
    }
    world.tenant_up = false;
    world.settle();
    assert_eq!(world.condition("Degraded").1, "QuorumLost");
    let mut play = Play::new();
    let spec = &mut play.restore.as_mut().unwrap().spec;
    (spec.survivor, spec.at) = (Some("etcd-1".to_owned()), None);
    world.restore = Some(play);
    world
}

#[test]
fn what_is_left_of_a_member_is_read_before_anything_is_built_wherever_the_operator_dies() {
    let whole = left_of_three();
    for budget in 0.. {
        let mut world = whole.clone();
        let died = go_on(&mut world, budget, true);
        assert_eq!(cluster_id(&world).as_deref(), Some(NEW), "{budget}");
        assert!(facts(&world).is_none() && all_run(&world), "{budget}");
        assert_eq!(jobs(&world, "restore-"), 4, "{budget}");
        let build = world
            .objects
            .iter()
            .find(|(key, _)| key.name.ends_with("-etcd-0"));
        let build = build.unwrap().1.to_string();
        assert!(build.contains("--least-revision=720"), "{build}");
        if !died {
            break;
        }
    }
}

#[test]
fn what_is_left_of_a_member_on_another_claim_is_not_taken_for_it_and_a_job_that_fails_says_nothing_of_it()
 {
    let mut world = left_of_three();
    world.restore.as_mut().unwrap().failing = Some("survivor");
    go_on(&mut world, usize::MAX, true);
    assert!(facts(&world).is_none() && jobs(&world, "restore") == 0);
    assert_eq!(cluster_id(&world).as_deref(), Some(OLD));

    let mut world = left_of_three();
    let claim = Key::new("PersistentVolumeClaim", NS, "data-etcd-1");
    world.objects.get_mut(&claim).unwrap()["metadata"]["uid"] = json!("another");
    go_on(&mut world, usize::MAX, true);
    assert!(facts(&world).is_none() && jobs(&world, "restore") == 0);
    assert_eq!(cluster_id(&world).as_deref(), Some(OLD));
}

#[test]
fn programs_of_the_jobs_understand_what_they_are_told() {
    use clap::Parser as _;
    use etcd_agent::args::Args;
    let mut world = left_of_three();
    go_on(&mut world, usize::MAX, true);
    let mut commands = BTreeMap::new();
    for (key, job) in world.objects.iter().filter(|(key, _)| key.kind == "Job") {
        let pod = &job["spec"]["template"]["spec"];
        let of = |field: &str| pod[field].as_array().into_iter().flatten();
        for container in of("initContainers").chain(of("containers")) {
            let args: Vec<_> = container["args"].as_array().unwrap().iter().collect();
            let args: Vec<_> = args.iter().map(|arg| arg.as_str().unwrap()).collect();
            if container["command"].is_null() {
                let all = std::iter::once("etcd-agent").chain(args.iter().copied());
                let parsed = Args::try_parse_from(all);
                assert!(parsed.is_ok(), "{}: {:?}", key.name, parsed.err());
                *commands.entry(args[1].to_owned()).or_insert(0) += 1;
            }
            let security = &container["securityContext"];
            assert_eq!(security["readOnlyRootFilesystem"], true, "{}", key.name);
        }
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert!(pod["serviceAccountName"].is_null());
    }
    let wanted = ["fetch", "forget", "replay", "seal"].map(|name| (name.to_owned(), 3));
    let of_left = ["append", "copy"].map(|name| (name.to_owned(), 1));
    let wanted: BTreeMap<_, _> = wanted.into_iter().chain(of_left).collect();
    assert_eq!(commands, wanted);
}
