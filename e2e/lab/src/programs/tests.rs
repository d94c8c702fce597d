//! Finding versions and binaries, in folders that the tests make.

use std::path::PathBuf;

use super::{Bins, KubernetesVersion, Program};

#[test]
fn versions_are_understood_short_and_long() {
    for text in ["1.35", "1.35.4", "v1.35.4"] {
        assert_eq!(
            text.parse::<KubernetesVersion>().unwrap(),
            KubernetesVersion::V1_35
        );
    }
    let error = "1.35.5"
        .parse::<KubernetesVersion>()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("choose one of 1.34.4, 1.35.4, 1.36.3"),
        "{error}"
    );
}

#[test]
fn binaries_are_found_only_in_programs_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["etcd", "kubectl"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    let mut bins = Bins::default();
    assert!(bins.path("etcd").is_err());
    bins.dirs.insert(Program::ETCD, dir.path().to_owned());
    assert_eq!(bins.path("etcd").unwrap(), dir.path().join("etcd"));
    assert!(bins.path("etcdctl").is_err());
    assert!(
        bins.kubernetes("kubectl", KubernetesVersion::V1_35)
            .is_err()
    );
}

#[test]
fn kubernetes_is_never_found_without_saying_which_version() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("kubectl"), "").unwrap();
    let mut bins = Bins::default();
    let version = KubernetesVersion::V1_34;
    bins.dirs
        .insert(Program::kubernetes(version), dir.path().to_owned());
    assert!(bins.path("kubectl").is_err());
    assert_eq!(
        bins.kubernetes("kubectl", version).unwrap(),
        dir.path().join("kubectl")
    );
    assert_eq!(bins.kubernetes_versions().collect::<Vec<_>>(), [version]);
    assert_eq!(
        bins.dir(Program::kubernetes(version)).unwrap(),
        PathBuf::from(dir.path())
    );
}
