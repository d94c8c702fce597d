//! Accounts at clouds and the fleet: what is broken, what is to be found first, and how a tenant cluster is described.
//!
//! Invariant: each row begins with a whole installation.

use insight::check::Check;
use insight::description::types::{Part, State};
use insight::description::{Detail, describe};
use insight::diagnosis::diagnose;
use insight::facts::Facts;
use insight::finding::Level;
use kit_objects::known::Known;
use serde_json::json;

use crate::installation::{account, cluster, fleet, machine, pool_of_account, read, said, whole};
use crate::table::Row;

type Said<'a> = &'a [(&'a str, &'a str, &'a str, &'a str)];

fn with_account(facts: &mut Facts, conditions: Said<'_>) {
    facts.pools = Known::Known(vec![read(pool_of_account())]);
    facts.provider_configs = Known::Known(vec![read(account(conditions))]);
}

const REFUSED: Said<'_> = &[(
    "Ready",
    "False",
    "CredentialsRefused",
    "hetzner: read SSH key covey: unauthorized",
)];

pub(crate) const TABLE: &[Row] = &[
    (
        "token has ended, and machines wait for it",
        |f| {
            with_account(f, REFUSED);
            f.machines = Known::Known(vec![read(said(
                machine("demo-workers-aaaaa"),
                &[("Ready", "False", "CredentialsRefused", "unauthorized")],
            ))]);
        },
        "cloud-accounts",
        Level::Error,
        "Put a token",
    ),
    (
        "token of an account that nobody uses has ended",
        |f| f.provider_configs = Known::Known(vec![read(account(REFUSED))]),
        "cloud-accounts",
        Level::Warning,
        "describe providerconfig",
    ),
    (
        "pool names an account that is not there",
        |f| {
            with_account(f, &[]);
            f.provider_configs = Known::Known(vec![]);
            f.machines = Known::Known(vec![read(said(
                machine("demo-workers-aaaaa"),
                &[(
                    "Ready",
                    "False",
                    "CredentialsRefused",
                    "no such ProviderConfig",
                )],
            ))]);
        },
        "cloud-accounts",
        Level::Error,
        "configName",
    ),
    (
        "account has no room for one server more",
        |f| {
            with_account(f, &[("Ready", "True", "ProviderChecked", "")]);
            f.machines = Known::Known(vec![read(said(
                machine("demo-workers-aaaaa"),
                &[("Ready", "False", "AccountLimitReached", "server_limit")],
            ))]);
        },
        "capacity",
        Level::Error,
        "have the limit raised",
    ),
    (
        "servers are left behind",
        |f| {
            with_account(
                f,
                &[
                    ("Ready", "True", "ProviderChecked", ""),
                    (
                        "Leaks",
                        "True",
                        "LeaksHeld",
                        "12 things of Machines that are not there",
                    ),
                ],
            );
        },
        "leaks",
        Level::Warning,
        "Drain and delete what is a node",
    ),
    (
        "fleet was halted by a failure",
        |f| {
            let told = &[
                ("Progressing", "False", "FleetHalted", "team-a/demo failed"),
                ("Degraded", "True", "FleetHalted", "team-a/demo failed"),
            ];
            f.management.fleet_policies = Known::Known(vec![read(fleet(told))]);
        },
        "fleet",
        Level::Error,
        "spec.retry",
    ),
    (
        "somebody holds the fleet",
        |f| {
            let told = &[("Progressing", "False", "FleetHeld", "spec.held is true")];
            f.management.fleet_policies = Known::Known(vec![read(fleet(told))]);
        },
        "fleet",
        Level::Warning,
        "spec.held",
    ),
    (
        "wave stands a failure",
        |f| {
            let mut policy = fleet(&[("Progressing", "True", "RollingOut", "wave rest")]);
            policy["status"]["waves"][0]["failed"] = json!(1);
            f.management.fleet_policies = Known::Known(vec![read(policy)]);
        },
        "fleet",
        Level::Warning,
        "covey doctor -A",
    ),
];

#[test]
fn what_a_wave_waits_for_as_it_was_asked_to_is_nothing_wrong() {
    for reason in ["WaitingForWindow", "WaveHeld", "WaveSoaking", "RollingOut"] {
        let mut facts = whole();
        let told = &[("Progressing", "True", reason, "for an hour now")];
        facts.management.fleet_policies = Known::Known(vec![read(fleet(told))]);
        assert_eq!(diagnose(&facts, |_| true), [], "{reason}");
    }
}

#[test]
fn a_halted_fleet_says_how_far_its_waves_are() {
    let mut facts = whole();
    let mut policy = fleet(&[("Degraded", "True", "FleetHalted", "team-a/demo failed")]);
    policy["status"]["waves"][0]["failed"] = json!(1);
    policy["status"]["waves"][0]["done"] = json!(2);
    facts.management.fleet_policies = Known::Known(vec![read(policy)]);
    let findings = diagnose(&facts, |_| true);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let told = "wave canary: of 3 tenant clusters 1 failed, 0 wait, 2 are done";
    assert!(findings[0].evidence.iter().any(|line| line == told));
}

#[test]
fn an_account_that_is_missing_explains_why_the_pool_has_no_machines() {
    let mut facts = whole();
    with_account(&mut facts, &[]);
    facts.provider_configs = Known::Known(vec![]);
    let ill = [(
        "Ready",
        "False",
        "CredentialsRefused",
        "no such ProviderConfig",
    )];
    facts.machines = Known::Known(vec![read(said(machine("demo-workers-aaaaa"), &ill))]);
    let findings = diagnose(&facts, |_| true);
    let machines = findings.iter().find(|f| f.check == Check::Machines);
    assert_eq!(machines.unwrap().because, Some("cloud-accounts"));
}

fn part(facts: &Facts, name: &str) -> Option<Part> {
    let clusters = facts.clusters.as_ref().there().unwrap();
    let described = describe(
        &clusters[0],
        facts,
        &Known::Known(vec![]),
        Detail::default(),
    );
    described.parts.into_iter().find(|part| part.name == name)
}

#[test]
fn a_tenant_cluster_says_how_its_accounts_do() {
    assert_eq!(part(&whole(), "cloud"), None);
    let mut facts = whole();
    with_account(&mut facts, &[("Ready", "True", "ProviderChecked", "")]);
    let told = part(&facts, "cloud").unwrap();
    assert_eq!((told.state, told.text.as_str()), (State::Ok, "hetzner"));
    with_account(&mut facts, REFUSED);
    let told = part(&facts, "cloud").unwrap();
    assert_eq!(
        (told.state, told.text.as_str()),
        (
            State::Failing,
            "hetzner: hetzner: read SSH key covey: unauthorized"
        )
    );
    facts.provider_configs = Known::Known(vec![]);
    let told = part(&facts, "cloud").unwrap();
    assert_eq!(
        (told.state, told.text.as_str()),
        (State::Failing, "hetzner is not there")
    );
    facts.provider_configs = Known::default();
    let told = part(&facts, "cloud").unwrap();
    assert_eq!(
        (told.state, told.text.as_str()),
        (State::Unknown, "hetzner ?")
    );
}

#[test]
fn a_tenant_cluster_that_waits_for_the_fleet_says_so() {
    assert_eq!(part(&whole(), "fleet"), None);
    let mut facts = whole();
    let mut held = cluster();
    held["status"]["rollout"] = json!({"held": true});
    facts.clusters = Known::Known(vec![read(held)]);
    let told = &[("Progressing", "True", "WaitingForWindow", "until 22:00")];
    facts.management.fleet_policies = Known::Known(vec![read(fleet(told))]);
    let told = part(&facts, "fleet").unwrap();
    assert_eq!(
        (told.state, told.text.as_str()),
        (State::Waiting, "FleetPolicy default: until 22:00")
    );
    facts.management.fleet_policies = Known::default();
    let told = part(&facts, "fleet").unwrap();
    assert!(told.text.contains("`covey fleet`"), "{}", told.text);
}
