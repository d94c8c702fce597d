//! Laws of an AccessGrant's plan, over a tenant cluster that sleeps, is silent, is turned and goes, and an operator that
//! forgets.
//!
//! Invariant: what the plan wants is done here as it is done for real, and nothing else. Long because certificates and
//! tokens are held to the same laws on one stage.

use std::sync::Arc;

use api::condition::is_true;
use api::{AccessGrant, ConditionType, Reason, TenantCluster, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit_objects::known::Known;
use proptest::prelude::*;
use serde_json::json;
use tenant_cp::settings::AccessSettings;

use super::observed::{Authority, Binding, Held, Inside, Kubeconfig, Observed};
use super::plan::{Action, Plan, needs_inside, plan};
use crate::access::{end, held_until, is_asleep, is_concerned, users_generation};

mod kept;

const UID: &str = "0a1b2c3d-0011-4000-8000-000000000001";

fn begin() -> Timestamp {
    "2027-01-31T12:00:00Z".parse().unwrap()
}

fn cluster(status: &serde_json::Value) -> TenantCluster {
    let cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": UID },
        "spec": { "version": "1.35.4" }, "status": status,
    });
    serde_json::from_value(cluster).unwrap()
}

fn turned(generation: u32) -> TenantCluster {
    cluster(&json!({ "rotation": [{
        "name": "usersCA", "generation": generation, "signs": generation, "believed": [generation],
        "since": "2027-01-31T12:00:00Z",
    }] }))
}

fn asleep() -> TenantCluster {
    cluster(&json!({ "hibernation": { "phase": "Asleep", "since": "2027-01-31T12:00:00Z" } }))
}

fn grant(profile: &str, seconds: u32) -> AccessGrant {
    let (request, _) = pki::issue::request("anybody").unwrap();
    let grant = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
        "metadata": {
            "name": "demo-x", "namespace": "team-a", "uid": "g1", "generation": 1,
            "creationTimestamp": begin().to_string(),
        },
        "spec": {
            "clusterName": "demo", "profile": profile, "user": "jane", "ttlSeconds": seconds,
            "request": request,
        },
    });
    serde_json::from_value(grant).unwrap()
}

struct World {
    grant: AccessGrant,
    /// It was let go, or deleted.
    is_gone: bool,
    cluster: Option<TenantCluster>,
    answers: bool,
    binding: Option<Binding>,
    bindings: usize,
    /// Whether its ServiceAccount is there, how many tokens were made of it, and when the last one ends.
    account: (bool, usize, Timestamp),
    /// By which generation its certificate was signed, and when, too.
    secret: (Held, u32, Timestamp),
    keys: usize,
    server: &'static str,
    others: usize,
    settings: AccessSettings,
    now: Timestamp,
}

impl World {
    fn new(profile: &str, seconds: u32) -> Self {
        Self {
            grant: grant(profile, seconds),
            is_gone: false,
            cluster: Some(cluster(&json!({}))),
            answers: true,
            binding: None,
            bindings: 0,
            account: (false, 0, begin()),
            secret: (Held::default(), 0, begin()),
            keys: 0,
            server: "https://10.96.3.7:6443",
            others: 0,
            settings: AccessSettings::default(),
            now: begin(),
        }
    }

    /// One who asks for a token, too.
    fn with_token(profile: &str, seconds: u32) -> Self {
        let mut world = Self::new(profile, seconds);
        let key = pki::sealed::OpeningKey::generate().unwrap();
        world.grant.spec.token_key = Some(key.public());
        world
    }

    fn observed(&self) -> Observed {
        let cluster = self.cluster.as_ref();
        let generation = cluster.map_or(1, users_generation);
        let is_awake = cluster.is_some_and(|cluster| !is_asleep(cluster));
        let may = needs_inside(&self.grant, self.now);
        let inside = match is_awake && may && self.answers {
            true => Inside::Answers(self.binding.clone()),
            false => Inside::Unknown { soon: is_awake },
        };
        let authority = matches!(inside, Inside::Answers(_)).then(|| Authority {
            generation,
            end: begin() + SignedDuration::from_hours(87_600),
        });
        Observed {
            cluster: Known::found(cluster.cloned().map(Arc::new)),
            authority,
            inside,
            believed: authority.map(|_| "CA".to_owned()),
            server: cluster.map(|_| self.server.to_owned()),
            secret: self.held(authority),
            others: self.others,
        }
    }

    fn held(&self, authority: Option<Authority>) -> Held {
        let (held, generation, since) = &self.secret;
        let mut held = held.clone();
        if let Held::Own(Some(there)) = &mut held {
            let left = there.until.duration_since(self.now).as_secs();
            let whole = there.until.duration_since(*since).as_secs();
            there.is_good = authority.is_some_and(|it| it.generation == *generation)
                && left * 3 >= whole
                && left > 0;
        }
        held
    }

    fn plan(&self) -> Plan {
        plan(&self.grant, &self.observed(), &self.settings, self.now)
    }

    /// One reconcile.
    fn step(&mut self) -> Plan {
        let plan = self.plan();
        let mut status = plan.status.clone();
        for action in &plan.actions {
            let list = self.grant.metadata.finalizers.get_or_insert_default();
            match action {
                Action::AddFinalizer => list.push(names::FINALIZER_ACCESS_GRANT.to_owned()),
                Action::RemoveFinalizer => {
                    list.retain(|one| one != names::FINALIZER_ACCESS_GRANT);
                    self.is_gone = self.grant.metadata.deletion_timestamp.is_some();
                }
                Action::Bind { role } => {
                    assert!(!list.is_empty(), "bound without anything that unbinds it");
                    assert_eq!(self.binding, None, "there is one of the name");
                    self.bindings += 1;
                    self.binding = Some(Binding {
                        uid: format!("b{}", self.bindings),
                        role: Some(role.clone()),
                    });
                }
                Action::Unbind { uid } => {
                    assert_eq!(self.binding.as_ref().map(|b| &b.uid), Some(uid));
                    self.binding = None;
                }
                Action::IssueToken { seconds } => {
                    assert!(
                        self.binding.is_some(),
                        "a token before its rights are there"
                    );
                    assert!(!list.is_empty(), "a token that nothing takes back");
                    assert!(self.grant.metadata.deletion_timestamp.is_none());
                    assert!(*seconds >= 600, "Kubernetes makes none that is shorter");
                    let ends = self.now + SignedDuration::from_secs(*seconds);
                    assert!(ends <= held_until(&self.grant), "{ends}");
                    self.account = (true, self.account.1 + 1, ends);
                    status.sealed_token = Some(format!("token {}", self.account.1));
                    status.token_not_after = Some(ends.to_string());
                }
                Action::DropAccount => self.account.0 = false,
                Action::Sign { until } => {
                    assert!(*until <= end(&self.grant) && self.now < *until);
                    assert!(self.grant.metadata.deletion_timestamp.is_none());
                    assert!(self.binding.is_some(), "signed before its rights are there");
                    status.certificate = Some(format!("by {:?}", status.authority));
                }
                Action::IssueSecret { until } => {
                    assert!(self.now < *until && self.grant.metadata.deletion_timestamp.is_none());
                    assert!(self.binding.is_some(), "signed before its rights are there");
                    assert!(matches!(self.secret.0, Held::Absent | Held::Own(_)));
                    self.keys += 1;
                    let certificate = format!("key {}", self.keys);
                    status.certificate = Some(certificate.clone());
                    let there = Kubeconfig {
                        certificate,
                        until: *until,
                        is_good: true,
                        is_current: true,
                    };
                    let generation = status.authority.unwrap();
                    self.secret = (Held::Own(Some(there)), generation, self.now);
                }
                Action::CorrectSecret => match &mut self.secret.0 {
                    Held::Own(Some(there)) => there.is_current = true,
                    other => panic!("{other:?}"),
                },
                Action::EmptySecret => {
                    assert!(matches!(self.secret.0, Held::Own(Some(_))));
                    self.secret.0 = Held::Own(None);
                }
                Action::DeleteSelf => {
                    let now = Time(self.now);
                    self.is_gone = list.is_empty();
                    self.grant.metadata.deletion_timestamp.get_or_insert(now);
                }
            }
        }
        self.grant.status = Some(status);
        plan
    }

    /// Until nothing more comes of it.
    fn settle(&mut self) {
        for _ in 0..4 {
            if self.is_gone {
                return;
            }
            self.step();
        }
        let again = self.plan();
        assert!(self.is_gone || again.actions.is_empty(), "{again:?}");
        assert_eq!(Some(&again.status), self.grant.status.as_ref());
    }

    fn said(&self) -> (String, String) {
        let conditions = self.grant.status.iter().flat_map(|s| &s.conditions);
        let mut ready = conditions.filter(|c| c.type_ == ConditionType::Ready.as_str());
        let ready = ready.next().unwrap();
        (ready.reason.clone(), ready.message.clone())
    }

    fn says(&self, reason: Reason, words: &str) {
        let (said, message) = self.said();
        assert!(reason == *said, "{said}: {message}");
        assert!(message.contains(words), "{message}");
    }

    fn is_ready(&self) -> bool {
        let status = self.grant.status.as_ref();
        status.is_some_and(|s| is_true(&s.conditions, ConditionType::Ready))
    }

    fn delete(&mut self) {
        let now = Time(self.now);
        self.grant.metadata.deletion_timestamp.get_or_insert(now);
        // Nothing holds it.
        let finalizers = self.grant.metadata.finalizers.iter().flatten();
        self.is_gone |= finalizers.count() == 0;
    }

    fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn happen(&mut self, one: Happens) {
        match one {
            Happens::Wait(seconds) => self.wait(seconds),
            Happens::Silent => self.answers = false,
            Happens::Answers => self.answers = true,
            Happens::Sleeps => self.cluster = self.cluster.as_ref().map(|_| asleep()),
            Happens::Wakes => self.cluster = self.cluster.as_ref().map(|_| cluster(&json!({}))),
            Happens::Turned => self.cluster = self.cluster.as_ref().map(|_| turned(2)),
            Happens::Gone => {
                (self.cluster, self.binding) = (None, None);
                self.account.0 = false;
            }
            Happens::Deleted => self.delete(),
            Happens::Forgotten => self.grant.status = None,
            Happens::Unbound => self.binding = None,
        }
    }
}

#[test]
fn grant_is_bound_then_signed_and_ends_by_itself() {
    let mut world = World::new("admin", 600);
    world.settle();
    world.says(
        Reason::GrantIssued,
        "covey:jane has the rights of the ClusterRole cluster-admin until 2027-01-31T12:10:00Z",
    );
    let status = world.grant.status.clone().unwrap();
    assert_eq!(status.not_after.as_deref(), Some("2027-01-31T12:10:00Z"));
    assert_eq!(status.subject.as_deref(), Some("covey:jane"));
    assert_eq!(status.cluster_uid.as_deref(), Some(UID));
    assert!(!is_concerned(&world.grant, world.cluster.as_ref().unwrap()));
    assert_eq!(world.plan().again, Some(SignedDuration::from_secs(600)));
    world.wait(600);
    world.settle();
    world.says(Reason::GrantEnded, "2027-01-31T12:10:00Z");
    assert_eq!((world.binding.as_ref(), world.is_gone), (None, false));
    world.wait(3600);
    world.settle();
    assert!(world.is_gone);
}

#[test]
fn deleted_grant_loses_its_rights_first_and_is_told_of() {
    let mut world = World::new("view", 3600);
    world.settle();
    world.delete();
    let last = world.step();
    assert!(matches!(
        last.actions.as_slice(),
        [Action::Unbind { .. }, Action::RemoveFinalizer]
    ));
    assert_eq!(last.notice.unwrap().reason, Reason::GrantRevoked.as_str());
    assert!(world.is_gone && world.binding.is_none());
}

#[test]
fn tenant_cluster_that_is_silent_or_gone_keeps_no_grant_for_ever() {
    let mut silent = World::new("view", 3600);
    silent.settle();
    silent.answers = false;
    silent.delete();
    silent.settle();
    silent.says(Reason::Deleting, "end once that answers");
    assert!(!silent.is_gone);
    silent.wait(3600);
    silent.settle();
    assert!(
        silent.is_gone,
        "nobody has a certificate that its binding would mean"
    );
    let mut gone = World::new("view", 3600);
    gone.settle();
    (gone.cluster, gone.answers) = (None, false);
    gone.delete();
    gone.settle();
    assert!(gone.is_gone);
}

#[test]
fn token_is_made_once_and_its_account_goes_before_the_binding() {
    let mut world = World::with_token("view", 600);
    world.wait(5);
    let first = world.step();
    assert!(matches!(
        first.actions.as_slice(),
        [
            Action::AddFinalizer,
            Action::Bind { .. },
            Action::Sign { .. },
            Action::IssueToken { seconds: 600 }
        ]
    ));
    world.settle();
    world.settle();
    assert_eq!(world.account.1, 1);
    // Another one of a grant that was forgotten, never a longer right.
    world.grant.status = None;
    world.settle();
    assert_eq!((world.account.1, world.is_ready()), (2, true));
    world.delete();
    let last = world.step();
    assert!(matches!(
        last.actions.as_slice(),
        [
            Action::DropAccount,
            Action::Unbind { .. },
            Action::RemoveFinalizer
        ]
    ));
    assert!(world.is_gone && !world.account.0);
}

#[test]
fn token_that_lasts_longer_than_its_grant_holds_it_while_nobody_answers() {
    let mut world = World::with_token("view", 600);
    world.wait(590);
    world.settle();
    assert!(world.is_ready());
    world.answers = false;
    world.delete();
    world.wait(60);
    world.settle();
    world.says(Reason::Deleting, "its certificate and its token at");
    assert!(!world.is_gone && world.now < world.account.2);
    world.wait(1000);
    world.settle();
    assert!(world.is_gone && world.now >= world.account.2);
}

#[test]
fn token_that_nobody_could_open_is_refused_before_anybody_is_let_in() {
    for key in ["", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] {
        let mut world = World::new("view", 3600);
        world.grant.spec.token_key = Some(key.to_owned());
        world.settle();
        world.says(Reason::GrantRequestUnusable, "`tokenKey` is no X25519 key");
        assert_eq!((world.binding, world.account.0), (None, false));
    }
}

#[test]
fn refusals_say_what_to_write_instead() {
    let check = |change: fn(&mut World), reason, words: &str| {
        let mut world = World::new("view", 3600);
        change(&mut world);
        world.settle();
        world.says(reason, words);
        assert_eq!(world.binding, None);
        assert_eq!(world.grant.status.unwrap().certificate, None);
    };
    check(
        |world| world.grant.spec.profile = "root".to_owned(),
        Reason::GrantProfileUnknown,
        "name one of admin, view",
    );
    check(
        |world| world.settings.most_seconds = 600,
        Reason::GrantTooLong,
        "it asks for 3600 seconds, and here it is 600 at most",
    );
    check(
        |world| {
            if let Some(request) = &mut world.grant.spec.request {
                request.insert(80, 'A');
            }
        },
        Reason::GrantRequestUnusable,
        "no PKCS #10 request",
    );
    check(
        |world| world.others = 100,
        Reason::GrantsTooMany,
        "100 grants of this tenant cluster are in force",
    );
    check(
        |world| world.settings.enabled = false,
        Reason::GrantsOff,
        "config.access.enabled",
    );
    check(
        |world| world.cluster = None,
        Reason::GrantWithoutCluster,
        "no such TenantCluster",
    );
    check(
        |world| world.cluster = Some(asleep()),
        Reason::GrantWaiting,
        "covey wake",
    );
    check(
        |world| world.answers = false,
        Reason::GrantWaiting,
        "does not answer yet",
    );
}

#[test]
fn what_was_granted_is_taken_away_where_the_platform_takes_the_profile_away_or_the_cluster_is_another()
 {
    let mut world = World::new("view", 3600);
    world.settle();
    assert!(world.is_ready());
    // A lower ceiling takes nothing away.
    world.settings.most_seconds = 600;
    world.others = 1000;
    world.settle();
    assert!(world.is_ready());
    world.settings.enabled = false;
    world.settle();
    world.says(Reason::GrantsOff, "nobody");
    assert_eq!(world.binding, None);
    let mut other = World::new("view", 3600);
    other.settle();
    other.binding = None;
    other.cluster.as_mut().unwrap().metadata.uid = Some("another".to_owned());
    other.answers = false;
    other.step();
    other.says(Reason::GrantWithoutCluster, "made anew");
}

#[test]
fn authority_that_is_turned_signs_again_and_makes_nothing_longer() {
    let mut world = World::new("view", 3600);
    world.settle();
    let before = world.grant.status.clone().unwrap();
    world.cluster = Some(turned(2));
    assert!(is_concerned(&world.grant, world.cluster.as_ref().unwrap()));
    world.wait(60);
    world.settle();
    let after = world.grant.status.clone().unwrap();
    assert_eq!(after.authority, Some(2));
    assert_ne!(before.certificate, after.certificate);
    assert_eq!(before.not_after, after.not_after);
    assert_eq!(world.bindings, 1);
}

#[test]
fn binding_that_somebody_changed_is_made_anew() {
    let mut world = World::new("view", 3600);
    world.settle();
    world.binding.as_mut().unwrap().role = Some("cluster-admin".to_owned());
    world.settle();
    let binding = world.binding.clone().unwrap();
    assert_eq!(binding.role.as_deref(), Some("view"));
    world.binding = None;
    world.settle();
    assert!(world.binding.is_some() && world.is_ready());
}

#[derive(Clone, Copy, Debug)]
enum Happens {
    Wait(i64),
    Silent,
    Answers,
    Sleeps,
    Wakes,
    Turned,
    Gone,
    Deleted,
    Forgotten,
    Unbound,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (1i64..2000).prop_map(Happens::Wait),
        Just(Happens::Silent),
        Just(Happens::Answers),
        Just(Happens::Sleeps),
        Just(Happens::Wakes),
        Just(Happens::Turned),
        Just(Happens::Gone),
        Just(Happens::Deleted),
        Just(Happens::Forgotten),
        Just(Happens::Unbound),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
    #[test]
    fn nobody_has_more_than_the_grant_whatever_happens(has_token: bool, all in prop::collection::vec(happens(), 0..24)) {
        let mut world = match has_token {
            true => World::with_token("admin", 3600),
            false => World::new("admin", 3600),
        };
        for one in all {
            world.happen(one);
            world.settle();
            let has_certificate = world.grant.status.as_ref().is_some_and(|s| s.certificate.is_some());
            prop_assert!(!world.is_ready() || has_certificate || world.is_gone);
            if world.is_gone {
                // Left inside is only what no certificate means any more.
                prop_assert!(world.binding.is_none() || world.now >= end(&world.grant));
                prop_assert!(!world.account.0 || world.now >= world.account.2);
                return Ok(());
            }
        }
        // It always comes to its end.
        world.wait(8000);
        world.settle();
        world.settle();
        prop_assert!(world.is_gone);
    }
}
