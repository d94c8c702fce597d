//! What is missing, and that the policy against starts goes away. No test installs anything.

use std::os::unix::fs::PermissionsExt as _;

use super::{IMAGES, POLICY_TEXT, Policy, RUNTIME, WITNESSES, has_lists, lacking};

#[test]
fn only_installed_packages_count_as_there() {
    let listing = "mount installed\nnftables config-files\nprocps installed\n";
    let lacking = lacking(
        &["mount", "nftables", "procps", "proc", "iproute2"],
        listing,
    );
    assert_eq!(lacking, ["nftables", "proc", "iproute2"]);
}

#[test]
fn every_package_we_name_has_a_witness_for_systems_without_apt() {
    for package in RUNTIME.iter().chain(&IMAGES) {
        assert!(
            WITNESSES.iter().any(|(name, _)| name == package),
            "{package}"
        );
    }
}

#[test]
fn the_policy_is_executable_and_goes_with_its_guard() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy-rc.d");
    let policy = Policy::forbid_starts(&file).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), POLICY_TEXT);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o111, 0o111);
    drop(policy);
    assert!(!file.exists());
}

#[test]
fn a_policy_of_the_machine_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy-rc.d");
    std::fs::write(&file, "#!/bin/sh\nexit 0\n").unwrap();
    drop(Policy::forbid_starts(&file).unwrap());
    assert!(file.exists());
}

#[test]
fn a_policy_that_a_killed_run_left_is_taken_away() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy-rc.d");
    std::fs::write(&file, POLICY_TEXT).unwrap();
    drop(Policy::forbid_starts(&file).unwrap());
    assert!(!file.exists());
}

#[test]
fn apt_has_lists_once_it_has_fetched_an_index() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!has_lists(dir.path()));
    std::fs::write(dir.path().join("lock"), "").unwrap();
    assert!(!has_lists(dir.path()));
    std::fs::write(
        dir.path()
            .join("mirror_dists_bookworm_main_binary-amd64_Packages"),
        "",
    )
    .unwrap();
    assert!(has_lists(dir.path()));
}
