//! What may be created beside others, and what may be changed into what.

use super::*;
use crate::settings::MinimumVersion;
use crate::validate::maintenance::{admit_hold, admit_version};

fn refused(old: Option<&Value>, new: &Value, others: &[Arc<TenantCluster>]) -> Vec<String> {
    let old = old.map(tc);
    let problems = admit(old.as_ref(), &tc(new), others, &Settings::default());
    problems.iter().map(ToString::to_string).collect()
}

fn other(patch: &Value) -> Arc<TenantCluster> {
    let mut tc = tc(&json!({"metadata": {"name": "other", "namespace": "team-b", "uid": "u2"}}));
    tc.spec.network = Default::default();
    let mut value = serde_json::to_value(tc).unwrap();
    merge(&mut value, patch);
    Arc::new(serde_json::from_value(value).unwrap())
}

#[test]
fn ranges_of_others_are_refused_without_their_name() {
    let others = [other(&network(&json!({"podCIDR": "10.0.0.0/8"})))];
    assert_eq!(
        refused(None, &json!({}), &others),
        [
            "spec.network.podCIDR: 10.0.0.0/16 overlaps a range of another tenant cluster: choose \
             another range, or leave the field out to be given a free one",
            "spec.network.serviceCIDR: 10.96.0.0/12 overlaps a range of another tenant cluster: \
             choose another range, or leave the field out to be given a free one",
        ]
    );
    let in_force = [other(&json!({"status": {"network": {
        "podCIDR": "10.128.0.0/18", "serviceCIDR": "10.96.0.0/20", "dnsDomain": "cluster.local",
    }}}))];
    assert_eq!(
        refused(None, &json!({}), &in_force),
        [
            "spec.network.serviceCIDR: 10.96.0.0/12 overlaps a range of another tenant cluster: \
             choose another range, or leave the field out to be given a free one",
        ]
    );
}

#[test]
fn reserved_ranges_are_refused() {
    let mut settings = Settings::default();
    settings.network.reserved = vec!["10.96.0.0/16".parse().unwrap()];
    let problems = admit::<TenantCluster>(None, &tc(&json!({})), &[], &settings);
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].reason, "CIDRReserved");
}

#[test]
fn the_object_itself_is_no_other() {
    let stored = Arc::new(tc(&json!({})));
    assert_eq!(
        refused(
            Some(&json!({})),
            &json!({"spec": {"paused": true}}),
            &[stored]
        ),
        [""; 0]
    );
    // Deleted and made anew under the same name; a cache may still show the first.
    let first = Arc::new(tc(&json!({"metadata": {"uid": "gone"}})));
    assert_eq!(refused(None, &json!({}), &[first]), [""; 0]);
}

#[test]
fn versions_go_one_minor_up_and_never_down() {
    let version = |text: &str| json!({"spec": {"version": text}});
    let change = |old: &str, new: &str| refused(Some(&version(old)), &version(new), &[]);
    assert_eq!(change("1.34.4", "1.35.4"), [""; 0]);
    assert_eq!(change("1.35.4", "1.35.1"), [""; 0]);
    assert_eq!(
        change("1.35.4", "1.34.4"),
        [
            "spec.version: the version cannot go from 1.35.4 down to 1.34.4: etcd may already \
             hold what only the newer minor can read; keep 1.35, or create a new tenant cluster"
        ]
    );
    assert_eq!(change("1.34.4", "1.36.3").len(), 1);
    // Still on its way from 1.34 to 1.35: one sentence, not two.
    let mut old = version("1.35.4");
    merge(&mut old, &json!({"status": {"version": "1.34.4"}}));
    let mut new = old.clone();
    merge(&mut new, &version("1.36.3"));
    let problems = refused(Some(&old), &new, &[]);
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("from 1.34.4 to 1.36.3"),
        "{problems:?}"
    );
}

#[test]
fn version_that_never_came_to_serve_is_set_back() {
    let failed = json!({"spec": {"version": "1.36.0"}, "status": {"version": "1.35.4"}});
    let change = |to: &str| {
        let new = json!({"spec": {"version": to}, "status": {"version": "1.35.4"}});
        refused(Some(&failed), &new, &[])
    };
    assert_eq!(change("1.35.4"), [""; 0]);
    assert_eq!(change("1.36.1"), [""; 0]);
    assert!(change("1.34.9")[0].contains("cannot go from 1.35.4 down to 1.34.9"));
}

#[test]
fn generation_that_was_dropped_does_not_come_back() {
    for name in [
        "clusterCA",
        "usersCA",
        "clientCA",
        "serviceAccountKeys",
        "encryptionKeys",
        "frontProxyCA",
        "kubeconfig",
    ] {
        let asks =
            |generation: u32| json!({"spec": {"rotation": {name: {"generation": generation}}}});
        let mut old = asks(3);
        old["status"] = json!({"rotation": [{
            "name": name, "generation": 3, "signs": 2, "believed": [2, 3], "phase": "Preparing",
            "since": "2027-01-31T12:00:00Z",
        }]});
        let change = |generation| refused(Some(&old), &asks(generation), &[]);
        let wanted = format!(
            "spec.rotation.{name}.generation: 1 is believed no more; set it to 2, or to 4 for a new one"
        );
        assert_eq!(change(1), [wanted]);
        for may in [2, 3, 4, 9] {
            assert_eq!(change(may), [""; 0], "{may}");
        }
        assert_eq!(
            refused(Some(&old), &json!({}), &[]),
            [""; 0],
            "nothing is said of it"
        );
        // Where nothing was ever turned, and where it is created.
        assert_eq!(refused(Some(&json!({})), &asks(1), &[]), [""; 0]);
        assert_eq!(refused(None, &asks(2), &[]), [""; 0]);
    }
}

#[test]
fn volumes_do_not_shrink() {
    let size = |text: &str| etcd(&json!({"storage": {"size": text}}));
    assert_eq!(refused(Some(&size("2Gi")), &size("4Gi"), &[]), [""; 0]);
    assert_eq!(refused(Some(&size("1Gi")), &size("1024Mi"), &[]), [""; 0]);
    assert_eq!(
        refused(Some(&size("4Gi")), &size("3Gi"), &[]),
        ["spec.etcd.storage.size: 3Gi is less than 4Gi: volumes cannot shrink; keep 4Gi or more"]
    );
}

#[test]
fn size_that_no_volume_was_given_is_taken_back() {
    let asks = |size: &str, held: &str| {
        json!({
            "spec": { "etcd": { "storage": { "size": size } } },
            "status": { "etcd": { "members": [
                { "name": "etcd-0", "volumeUID": "a", "volumeSize": held },
                { "name": "etcd-1", "volumeUID": "b", "volumeSize": "1Gi" },
            ] } },
        })
    };
    let change = |held: &str, to: &str| refused(Some(&asks("8Gi", held)), &asks(to, held), &[]);
    assert_eq!(change("2Gi", "2Gi"), [""; 0]);
    assert_eq!(change("2Gi", "4Gi"), [""; 0]);
    assert_eq!(
        change("2Gi", "1Gi"),
        ["spec.etcd.storage.size: 1Gi is less than 2Gi: volumes cannot shrink; keep 2Gi or more"]
    );
    assert_eq!(
        change("8Gi", "4Gi"),
        ["spec.etcd.storage.size: 4Gi is less than 8Gi: volumes cannot shrink; keep 8Gi or more"]
    );
}

#[test]
fn what_was_wrong_before_does_not_keep_a_change_out() {
    let mut old = json!({"spec": {"version": "1.33.1"}});
    merge(&mut old, &network(&json!({"podCIDR": "10.0.0.0/30"})));
    let mut paused = old.clone();
    merge(&mut paused, &json!({"spec": {"paused": true}}));
    let rival = [other(&network(&json!({"podCIDR": "10.96.0.0/16"})))];
    assert_eq!(refused(Some(&old), &paused, &rival), [""; 0]);
    // A new problem is still one, also in the same field.
    let mut worse = paused;
    merge(&mut worse, &json!({"spec": {"version": "1.32.1"}}));
    assert_eq!(
        refused(Some(&old), &worse, &rival),
        [
            "spec.version: Kubernetes 1.32.1 is not supported: choose a patch release of 1.34, \
             1.35 or 1.36"
        ]
    );
}

#[test]
fn deletion_is_never_held_up() {
    let bad = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"version": "nonsense"},
    });
    assert_eq!(refused(Some(&json!({})), &bad, &[]), [""; 0]);
    let unchanged = json!({"spec": {"version": "nonsense"}});
    let mut labelled = unchanged.clone();
    merge(
        &mut labelled,
        &json!({"metadata": {"labels": {"a": "b"}, "finalizers": []}}),
    );
    assert_eq!(refused(Some(&unchanged), &labelled, &[]), [""; 0]);
}

#[test]
fn a_generated_name_is_awaited() {
    let patch = json!({"metadata": {"name": null, "generateName": "demo-"}});
    assert_eq!(refused(None, &patch, &[]), [""; 0]);
}

#[test]
fn what_is_doubtful_is_said_in_short_warnings() {
    let patch = json!({"spec": {
        "controlPlane": {"endpoint": {
            "type": "NodePort", "host": "x.example", "port": 6443, "konnectivityPort": 8132,
        }},
        "network": {"podCIDR": "20.0.0.0/16"},
    }});
    let mut said = warnings(&tc(&patch), &Settings::default());
    let mut older = patch.clone();
    merge(&mut older, &json!({"spec": {"version": "1.35.9"}}));
    merge(&mut older, &endpoint(&json!({"port": 31000})));
    said.extend(transition_warnings(&tc(&older), &tc(&patch)));
    assert_eq!(
        said,
        [
            "spec.controlPlane.endpoint.port: 6443 is outside 30000-32767, the usual range of \
             node ports",
            "spec.controlPlane.endpoint.konnectivityPort: 8132 is outside 30000-32767, the usual range of \
             node ports",
            "spec.controlPlane.endpoint.host: it is no IP address, so the Service kubernetes inside leads to an \
             address of the management cluster, and pods on Hosts do not find the API by it",
            "spec.network.podCIDR: 20.0.0.0/16 is not a private range: hosts on the Internet that \
             have these addresses cannot be reached from the tenant cluster",
            "spec.version: 1.35.4 lacks the fixes that came with 1.35.9",
            "spec.controlPlane.endpoint: kubeconfigs and nodes that hold the old host or port \
             must be given the new one",
        ]
    );
    assert!(said.iter().all(|warning| warning.len() <= 256));
}

#[test]
fn who_is_held_back_for_too_long_or_until_no_day_is_told_which_day_will_do() {
    let held = |until: &str| json!({"spec": {"maintenance": {"heldUntil": until}}});
    let of_no_day = "spec.maintenance.heldUntil: \"2027-02-31T12:00:00Z\" is no day of the calendar: write one as \
                     2027-01-31T12:00:00Z";
    assert_eq!(
        refused(None, &held("2027-02-31T12:00:00Z"), &[]),
        [of_no_day]
    );
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let admitted = |old: Option<&str>, new: &str| {
        let old = old.map(|old| tc(&held(old)));
        let problem = admit_hold(old.as_ref(), &tc(&held(new)), now);
        problem.map(|problem| problem.to_string())
    };
    let (last, late) = ("2027-02-28T12:00:00Z", "2027-02-28T12:00:01Z");
    assert_eq!(admitted(None, last), None);
    let told = admitted(Some(last), late).unwrap();
    assert!(
        told.ends_with("choose 2027-02-28T12:00:00Z or earlier"),
        "{told}"
    );
    assert_eq!(admitted(Some(late), late), None, "it was so before");
    assert_eq!(admitted(Some(late), "2020-01-01T00:00:00Z"), None);
}

#[test]
fn windows_that_nobody_can_open_are_refused_with_the_field() {
    let windows = |windows: Value| json!({"spec": {"maintenance": {"windows": windows}}});
    let nights =
        json!({"opens": "0 22 * * 1-5", "closes": "0 4 * * *", "timeZone": "Europe/Berlin"});
    assert_eq!(refused(None, &windows(json!([nights])), &[]), [""; 0]);
    for (window, told) in [
        (
            json!({"opens": "0 25 * * *", "closes": "0 4 * * *"}),
            "spec.maintenance.windows[1].opens: \"0 25 * * *\" cannot be read",
        ),
        (
            json!({"opens": "0 22 31 2 *", "closes": "0 4 * * *"}),
            "spec.maintenance.windows[1].opens: \"0 22 31 2 *\" never comes: no such month has that day",
        ),
        (
            json!({"opens": "0 22 * * *", "closes": "* * * * *"}),
            "spec.maintenance.windows[1].closes: \"* * * * *\" comes more than 4 times a day",
        ),
        (
            json!({"opens": "0 22 * * *", "closes": "0 4 * * *", "timeZone": "CET/Berlin"}),
            "spec.maintenance.windows[1].timeZone: \"CET/Berlin\" is no time zone of the IANA database",
        ),
    ] {
        let refused = refused(None, &windows(json!([nights, window])), &[]);
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].starts_with(told), "{}", refused[0]);
    }
}

#[test]
fn what_is_older_than_the_platform_allows_is_refused_once_it_counts() {
    let settings = Settings {
        minimum_versions: vec![MinimumVersion {
            version: "1.35.6".to_owned(),
            from: "2026-11-30T12:00:00Z".to_owned(),
        }],
        ..Settings::default()
    };
    let asks = |version: &str| tc(&json!({"spec": {"version": version}}));
    let at = |old: Option<&str>, new: &str, now: &str| {
        let old = old.map(asks);
        let problem = admit_version(old.as_ref(), &asks(new), &settings, now.parse().unwrap());
        problem.map(|problem| problem.to_string())
    };
    let (before, then) = ("2026-11-30T11:59:59Z", "2026-11-30T12:00:00Z");
    assert_eq!(at(None, "1.35.5", before), None);
    let told = "spec.version: the platform allows nothing older than 1.35.6 of Kubernetes 1.35: choose 1.35.6 or a newer patch";
    assert_eq!(at(None, "1.35.5", then).as_deref(), Some(told));
    assert_eq!(at(Some("1.35.7"), "1.35.5", then).as_deref(), Some(told));
    assert_eq!(at(Some("1.34.9"), "1.35.0", then).as_deref(), Some(told));
    // Whoever was there before may change everything else.
    assert_eq!(at(Some("1.35.4"), "1.35.4", then), None);
    assert_eq!(at(None, "1.35.6", then), None);
    assert_eq!(at(None, "1.34.0", then), None, "of another minor");
}

#[test]
fn who_asks_for_an_older_patch_than_runs_is_told_what_becomes_of_it() {
    let of = |version: &str, auto: bool| {
        tc(&json!({
            "spec": {"version": version, "maintenance": {"autoPatch": auto}},
            "status": {"version": "1.35.6"},
        }))
    };
    let stays = "spec.version: 1.35.6 runs and stays, because with spec.maintenance.autoPatch 1.35.3 is the least that runs; \
                 set autoPatch to false to go back";
    assert_eq!(
        transition_warnings(&of("1.35.4", true), &of("1.35.3", true)),
        [stays]
    );
    // What was raised by the operator is no downgrade of its user's.
    let raised = "spec.version: 1.35.6 runs and stays, because with spec.maintenance.autoPatch 1.35.5 is the least that runs; \
                  set autoPatch to false to go back";
    assert_eq!(
        transition_warnings(&of("1.35.4", true), &of("1.35.5", true)),
        [raised]
    );
    for version in ["1.35.3", "1.35.5"] {
        let lacks = format!("spec.version: {version} lacks the fixes that came with 1.35.6");
        assert_eq!(
            transition_warnings(&of("1.35.4", false), &of(version, false)),
            [lacks]
        );
    }
    assert_eq!(
        transition_warnings(&of("1.35.4", true), &of("1.35.4", false)),
        [""; 0]
    );
    assert_eq!(
        transition_warnings(&of("1.35.4", true), &of("1.35.7", true)),
        [""; 0]
    );
}

#[test]
fn versions_of_the_configuration_are_checked_when_it_is_loaded() {
    let least = |version: &str, from: &str| MinimumVersion {
        version: version.to_owned(),
        from: from.to_owned(),
    };
    let moment = "2027-01-31T12:00:00Z";
    let told = |patches: &[&str], minimum: Vec<MinimumVersion>| {
        let settings = Settings {
            patch_versions: patches.iter().map(|patch| (*patch).to_owned()).collect(),
            minimum_versions: minimum,
            ..Settings::default()
        };
        let problems = check_settings(&settings);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&["1.34.9", "1.35.6"], vec![least("1.35.6", moment)]),
        [""; 0]
    );
    assert_eq!(
        told(&[], vec![least("1.35.6", moment), least("1.34.2", moment)]),
        [""; 0]
    );
    let problems = told(
        &["1.35", "1.33.2", "1.35.5"],
        vec![
            least("1.35.6", "2027-02-31T12:00:00Z"),
            least("1.35.4", moment),
            least("1.99.0", moment),
        ],
    );
    let begins = [
        "patchVersions[0]: \"1.35\" is not a version",
        "patchVersions[1]: Kubernetes 1.33.2 is not supported",
        "minimumVersions[0].from: \"2027-02-31T12:00:00Z\" is no moment: write one in UTC",
        "minimumVersions[0].version: 1.35.6 is newer than 1.35.5, the newest of patchVersions",
        "minimumVersions[1].version: 1.35 has a least patch already",
        "minimumVersions[2].version: Kubernetes 1.99.0 is not supported",
    ];
    assert_eq!(problems.len(), begins.len(), "{problems:#?}");
    for (problem, begin) in problems.iter().zip(begins) {
        assert!(problem.starts_with(begin), "{problem}");
    }
}
