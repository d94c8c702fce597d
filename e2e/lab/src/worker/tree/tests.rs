//! Tables that must fit each other, and trimming of a small tree.

use super::*;

fn put(root: &Path, path: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
}

#[test]
fn only_what_is_wanted_here_is_started() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    put(
        root,
        "usr/lib/systemd/system/sysinit.target.wants/systemd-repart.service",
    );
    put(
        root,
        "etc/systemd/system/multi-user.target.wants/ssh.service",
    );
    put(root, "usr/lib/systemd/system/ssh.socket");
    trim(root).unwrap();
    assert!(
        !root
            .join("usr/lib/systemd/system/sysinit.target.wants")
            .exists()
    );
    let wants = root.join("etc/systemd/system/multi-user.target.wants");
    let mut names: Vec<_> = children(&wants)
        .unwrap()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "containerd.service",
            "kubelet.service",
            "worker-late.timer",
            "worker-power.service",
            "worker-run.service"
        ]
    );
    assert_eq!(
        fs::read_link(wants.join("kubelet.service")).unwrap(),
        Path::new("/etc/systemd/system/kubelet.service")
    );
    let ssh = root.join("etc/systemd/system/worker-late.target.wants/ssh.socket");
    assert_eq!(
        fs::read_link(ssh).unwrap(),
        Path::new("/lib/systemd/system/ssh.socket")
    );
}

#[test]
fn every_unit_of_ours_is_wanted_or_started_by_another() {
    let wanted: Vec<_> = WANTS.iter().flat_map(|(_, units)| *units).collect();
    for (path, _) in FILES {
        let unit = path.strip_prefix("etc/systemd/system/").unwrap_or_default();
        let is_unit = !unit.is_empty() && !unit.contains('/') && unit != "worker-late.target";
        assert!(!is_unit || wanted.contains(&&unit), "{unit}");
    }
}

#[test]
fn names_with_a_star_stand_for_any_end() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    for path in [
        "boot/vmlinuz-6.1",
        "boot/config-6.1",
        "usr/lib/python3.11/os.py",
        "usr/lib/py",
    ] {
        put(root, path);
    }
    trim(root).unwrap();
    let there = |path: &str| root.join(path).exists();
    assert!(!there("boot/vmlinuz-6.1") && !there("usr/lib/python3.11"));
    assert!(there("boot/config-6.1") && there("usr/lib/py"));
}

#[test]
fn modules_that_no_worker_wants_go() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let kept = [
        "net/bridge/bridge.ko",
        "drivers/net/vxlan/vxlan.ko",
        "drivers/net/veth.ko",
    ];
    let gone = [
        "drivers/net/ethernet/e1000.ko",
        "drivers/infiniband/x.ko",
        "sound/y.ko",
    ];
    for path in kept.iter().chain(&gone) {
        put(root, &format!("kernel/{path}"));
    }
    trim_modules(root).unwrap();
    let there = |path: &&str| root.join("kernel").join(path).exists();
    assert!(kept.iter().all(there));
    assert!(!gone.iter().any(there));
}

#[test]
fn resolver_and_target_lead_somewhere_else_whatever_was_there() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "etc/resolv.conf");
    trim(root.path()).unwrap();
    let link = fs::read_link(root.path().join("etc/resolv.conf")).unwrap();
    assert_eq!(link, Path::new("/run/resolv.conf"));
}
