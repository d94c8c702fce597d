//! The whole of it, on files in a folder, with a kubelet that is played.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

const CONF: &str = "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: b2xk
    server: https://192.0.2.7:6443
  name: default-cluster
kind: Config
users:
- name: default-auth
  user:
    client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
    client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
";
const OLD: &str = "/var/lib/kubelet/pki/kubelet-client-2026.pem";
const NEW: &str = "/var/lib/kubelet/pki/kubelet-client-2027.pem";

/// What a kubelet does that starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Does {
    /// It shows its token and gets a certificate.
    Asks,
    /// It gets none.
    Waits,
    /// Nobody starts it.
    StaysAway,
}

struct Played {
    machine: tempfile::TempDir,
    does: Does,
    runs: Option<i32>,
    ended: usize,
    left: usize,
    /// What it was started with: kubeconfig, bootstrap kubeconfig.
    started_with: Vec<(String, Option<String>)>,
}

impl Played {
    fn new(does: Does) -> Self {
        let machine = tempfile::tempdir().unwrap();
        let pki = machine.path().join("var/lib/kubelet/pki");
        fs::create_dir_all(&pki).unwrap();
        fs::create_dir_all(machine.path().join("etc/kubernetes/pki")).unwrap();
        let played = Self {
            machine,
            does,
            runs: Some(7),
            ended: 0,
            left: 3,
            started_with: Vec::new(),
        };
        let paths = played.paths();
        fs::write(&paths.kubelet_conf, CONF).unwrap();
        fs::write(&paths.believed, "old").unwrap();
        fs::write(pki.join("kubelet-client-2026.pem"), "certificate").unwrap();
        symlink(OLD, &paths.current).unwrap();
        played
    }

    fn paths(&self) -> Paths {
        Paths::below(self.machine.path())
    }

    fn renew(&mut self) -> Result<()> {
        let told = Told {
            believed: "-----BEGIN CERTIFICATE-----\nboth".to_owned(),
            token: "abcdef.0123456789abcdef".to_owned(),
        };
        renew(&self.paths(), &told, self)
    }

    fn text(&self, path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    /// As before, or with what the test says; no token and nothing kept in either case.
    fn is(&self, conf: &str, believed: &str, certificate: &str) {
        let paths = self.paths();
        assert_eq!(self.text(&paths.kubelet_conf), conf);
        assert_eq!(self.text(&paths.believed), believed);
        let target = fs::read_link(&paths.current).unwrap();
        assert_eq!(target, Path::new(certificate));
        assert!(!paths.bootstrap.exists(), "the token is left");
        let folder = fs::read_dir(paths.kubelet_conf.parent().unwrap()).unwrap();
        let mut left: Vec<_> = folder.map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["kubelet.conf", "pki"]);
    }
}

impl Kubelet for Played {
    fn running(&mut self) -> Result<Option<i32>> {
        Ok(self.runs)
    }

    fn end(&mut self, process: i32) -> Result<()> {
        assert_eq!(self.runs, Some(process));
        self.ended += 1;
        let paths = self.paths();
        let bootstrap = fs::read_to_string(&paths.bootstrap).ok();
        self.started_with
            .push((self.text(&paths.kubelet_conf), bootstrap.clone()));
        self.runs = match self.does {
            Does::StaysAway => None,
            Does::Asks | Does::Waits => Some(process + 1),
        };
        let has_certificate = paths.current.exists() || fs::read_link(&paths.current).is_ok();
        if self.does == Does::Asks && bootstrap.is_some() && !has_certificate {
            let beside = paths.current.with_file_name("kubelet-client-2027.pem");
            fs::write(beside, "certificate").unwrap();
            symlink(NEW, &paths.current).unwrap();
        }
        Ok(())
    }

    fn pause(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }
}

fn told_conf() -> String {
    CONF.replace(
        "b2xk",
        &STANDARD.encode("-----BEGIN CERTIFICATE-----\nboth"),
    )
}

#[test]
fn kubelet_starts_with_both_bundles_and_a_token_and_has_another_certificate() {
    let mut played = Played::new(Does::Asks);
    played.renew().unwrap();
    played.is(&told_conf(), "-----BEGIN CERTIFICATE-----\nboth", NEW);
    assert_eq!(played.ended, 1);
    let (conf, bootstrap) = &played.started_with[0];
    assert_eq!(*conf, told_conf());
    assert!(
        bootstrap
            .as_ref()
            .unwrap()
            .contains("token: abcdef.0123456789abcdef")
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let paths = played.paths();
    assert_eq!(
        (mode(&paths.kubelet_conf), mode(&paths.believed)),
        (0o600, 0o644)
    );
    // Done twice it is the same, with a certificate more.
    played.left = 3;
    let beside = paths.current.with_file_name("kubelet-client-2027.pem");
    fs::remove_file(&beside).unwrap();
    fs::remove_file(&paths.current).unwrap();
    symlink(OLD, &paths.current).unwrap();
    played.renew().unwrap();
    played.is(&told_conf(), "-----BEGIN CERTIFICATE-----\nboth", NEW);
}

#[test]
fn everything_is_as_it_was_where_no_certificate_comes() {
    for does in [Does::Waits, Does::StaysAway] {
        let mut played = Played::new(does);
        let error = format!("{:#}", played.renew().unwrap_err());
        assert!(error.contains("no other certificate in time"), "{error}");
        played.is(CONF, "old", OLD);
        let (conf, bootstrap) = played.started_with.last().unwrap();
        if does == Does::Waits {
            // It was ended once more, and starts with what was before.
            assert_eq!((played.ended, conf.as_str(), bootstrap), (2, CONF, &None));
        }
    }
}

#[test]
fn nothing_is_changed_where_no_kubelet_runs_or_it_was_set_up_otherwise() {
    let mut played = Played::new(Does::Asks);
    played.runs = None;
    played.renew().unwrap_err();
    played.is(CONF, "old", OLD);
    let mut played = Played::new(Does::Asks);
    let other = CONF.replace(
        "certificate-authority-data: b2xk",
        "certificate-authority: /ca.crt",
    );
    fs::write(played.paths().kubelet_conf, &other).unwrap();
    played.renew().unwrap_err();
    played.is(&other, "old", OLD);
    assert_eq!(played.ended, 0);
    let mut played = Played::new(Does::Asks);
    let current = played.paths().current;
    fs::remove_file(&current).unwrap();
    fs::write(&current, "certificate and key").unwrap();
    played.renew().unwrap_err();
    assert_eq!(played.text(&current), "certificate and key");
    assert_eq!(
        (
            played.text(&played.paths().kubelet_conf).as_str(),
            played.ended
        ),
        (CONF, 0)
    );
}

#[test]
fn what_a_try_that_was_cut_off_left_is_put_back_first() {
    let mut played = Played::new(Does::Asks);
    let paths = played.paths();
    // Killed when everything was written, and the kubelet not ended.
    Kept::save(&paths).unwrap();
    let told = Told {
        believed: "-----BEGIN CERTIFICATE-----\nother".to_owned(),
        token: "a.b".to_owned(),
    };
    change(
        &paths,
        &told,
        &CONF.replace("b2xk", "b3RoZXI="),
        "bootstrap",
    )
    .unwrap();
    assert!(!paths.current.exists() && paths.bootstrap.exists());
    played.renew().unwrap();
    played.is(&told_conf(), "-----BEGIN CERTIFICATE-----\nboth", NEW);
    // The same, with a kubelet that gets nothing: it ends as it was before both.
    let mut played = Played::new(Does::Waits);
    let paths = played.paths();
    Kept::save(&paths).unwrap();
    change(
        &paths,
        &told,
        &CONF.replace("b2xk", "b3RoZXI="),
        "bootstrap",
    )
    .unwrap();
    played.renew().unwrap_err();
    played.is(CONF, "old", OLD);
    // Killed while it was being kept: nothing was changed yet.
    let mut played = Played::new(Does::Asks);
    let beside = played
        .paths()
        .kubelet_conf
        .with_file_name("covey-renewal.new");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("ca.crt"), "half").unwrap();
    played.renew().unwrap();
    played.is(&told_conf(), "-----BEGIN CERTIFICATE-----\nboth", NEW);
}

#[test]
fn what_is_told_is_read_and_nothing_else_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    Told::read(folder.path()).unwrap_err();
    write(BELIEVED, "-----BEGIN CERTIFICATE-----\n");
    write(TOKEN, "abcdef.0123456789abcdef\n");
    assert_eq!(
        Told::read(folder.path()).unwrap().token,
        "abcdef.0123456789abcdef"
    );
    for token in ["", "a b", "a\nusers: []", "\"a\""] {
        write(TOKEN, token);
        assert!(Told::read(folder.path()).is_err(), "{token}");
    }
    write(TOKEN, "a.b");
    write(BELIEVED, "none");
    Told::read(folder.path()).unwrap_err();
}

#[test]
fn every_flag_has_a_variable_and_nothing_is_asked_for() {
    use clap::CommandFactory as _;
    Args::command().debug_assert();
    let args = Args::try_parse_from([COMMAND, "--folder=/renewal", "--machine=/machine"]).unwrap();
    assert_eq!(
        (args.proc.as_path(), args.patience),
        (Path::new("/proc"), 120)
    );
}
