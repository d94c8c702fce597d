//! A release of stand-ins: its chart is one that helm takes, and what is pushed is what was written.
//!
//! Invariant: where a program of the lab is missing these tests say `SKIPPED` past the test runner's capture, and fail
//! instead where `COVEY_TEST_REQUIRE=1` is set.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

mod support;
use support::{VERSIONS, crane, helm, root};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Every program of a release.
const PROGRAMS: [&str; 9] = [
    "operator",
    "etcd-agent",
    "ccm",
    "csi-proxy",
    "autoscaler",
    "activator",
    "link-node",
    "covey-dashboard",
    "covey",
];
/// What the command line is asked for.
const CLI: &str = "#!/bin/sh\ncase $1 in\ncompletion) echo \"completes $2\" ;;\nman) mkdir -p \"$3\" && echo page > \"$3/covey.1\" ;;\nesac\n";

/// A folder with a release in it.
struct Release {
    folder: tempfile::TempDir,
}

impl Release {
    /// Of this checkout, with scripts in place of programs.
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = Self::run(folder.path(), &["amd64", "arm64"], VERSION);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Self { folder }
    }

    fn run(folder: &Path, architectures: &[&str], version: &str) -> std::process::Output {
        let programs = folder.join("programs");
        let mut release = Command::new(env!("CARGO_BIN_EXE_xtask"));
        release.args(["release", "--version", version]);
        for architecture in architectures {
            let at = programs.join(architecture);
            std::fs::create_dir_all(&at).unwrap();
            for name in PROGRAMS {
                let text = match name {
                    "covey" => CLI.to_owned(),
                    _ => format!("#!/bin/sh\necho {name} {architecture}\n"),
                };
                let path = at.join(name);
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            release.args(["--arch", architecture]);
        }
        release
            .arg("--stand-ins")
            .arg(&programs)
            .arg("--out")
            .arg(folder.join("out"))
            .current_dir(root());
        release.output().unwrap()
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn contents(&self) -> Value {
        let text = std::fs::read_to_string(self.out().join("release.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    fn chart(&self) -> PathBuf {
        self.out().join(format!("covey-{VERSION}.tgz"))
    }
}

fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}/{}", path.file_name().unwrap().to_string_lossy());
        if path.is_dir() {
            files(&path, &name, found);
        } else {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn two_releases_of_one_checkout_are_the_same_bytes_and_their_sums_hold() {
    let (one, other) = (Release::make(), Release::make());
    let (mut first, mut second) = (BTreeMap::new(), BTreeMap::new());
    files(&one.out(), "", &mut first);
    files(&other.out(), "", &mut second);
    assert_eq!(
        first.keys().collect::<Vec<_>>(),
        second.keys().collect::<Vec<_>>()
    );
    for (path, bytes) in &first {
        assert!(second[path] == *bytes, "{path} differs");
    }
    output(
        Command::new("sha256sum")
            .args(["--check", "--strict", "--quiet", "SHA256SUMS"])
            .current_dir(one.out()),
    );
    let contents = one.contents();
    assert_eq!(contents["standIns"], true);
    assert_eq!(contents["advisories"]["asked"], false);
    assert_eq!(contents["programs"].as_array().unwrap().len(), 18);
    assert_eq!(contents["images"].as_array().unwrap().len(), 9);
    let csi = contents["leftOut"][0].as_str().unwrap();
    assert!(csi.contains("image csi"), "{csi}");
    // The archive has one folder with what was printed.
    let cli = contents["cli"][0]["file"].as_str().unwrap();
    let listed = output(Command::new("tar").arg("-tzf").arg(one.out().join(cli)));
    for name in [
        "covey",
        "kubectl-covey",
        "completions/_covey",
        "man/man1/covey.1",
        "LICENSE",
    ] {
        let wanted = format!("covey-{VERSION}-linux-amd64/{name}");
        assert!(
            listed.lines().any(|line| line == wanted),
            "{wanted} {listed}"
        );
    }
}

#[test]
fn a_folder_that_is_in_use_and_another_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |version: &str| {
        let output = Release::run(folder.path(), &["amd64"], version);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused("99.0.0");
    assert!(error.contains("Cargo.toml:"), "{error}");
    assert!(error.contains("version = \"99.0.0\""), "{error}");
    assert!(!folder.path().join("out").exists());
    std::fs::create_dir_all(folder.path().join("out/old")).unwrap();
    let error = refused(VERSION);
    assert!(error.contains("is not empty"), "{error}");
}

#[test]
fn helm_takes_the_released_chart_which_names_every_image_by_its_digest() {
    let Some(helm) = helm() else { return };
    let release = Release::make();
    let chart = release.chart();
    let chart = chart.to_str().unwrap();
    for version in VERSIONS {
        let lint = helm.run(&["lint", "--strict", "--kube-version", version, chart]);
        let lint = lint.unwrap_or_else(|error| panic!("{error}"));
        assert!(!lint.contains("[WARNING]"), "{lint}");
    }
    let all = "activator.enabled=true,dashboard.enabled=true,dashboard.tlsSecretName=tls";
    let rendered = helm.run(&[
        "template",
        "covey",
        chart,
        "--namespace",
        "covey-system",
        "--set",
        all,
    ]);
    let rendered = rendered.unwrap_or_else(|error| panic!("{error}"));
    let contents = release.contents();
    for image in contents["images"].as_array().unwrap() {
        let digest = image["digest"].as_str().unwrap();
        assert!(rendered.contains(digest), "{image}");
    }
    let tagged: Vec<_> = rendered
        .lines()
        .filter(|line| line.trim_start().starts_with("image: ") && !line.contains("@sha256:"))
        .collect();
    assert!(tagged.is_empty(), "{tagged:?}");
    let shown = helm.run(&["show", "chart", chart]).unwrap();
    let shown: Value = serde_saphyr::from_str(&shown).unwrap();
    assert_eq!(shown["appVersion"], VERSION);
    let changes = shown["annotations"]["artifacthub.io/changes"].as_str();
    let changes: Value = serde_saphyr::from_str(changes.unwrap()).unwrap();
    assert!(
        changes
            .as_array()
            .is_some_and(|changes| !changes.is_empty())
    );
    // The values that were added are ones that the operator reads.
    let objects = rendered
        .split("\n---\n")
        .filter(|d| d.contains("name: covey-config"));
    let config: Value = objects
        .map(|object| serde_saphyr::from_str::<Value>(object).unwrap())
        .find(|object| object["kind"] == "ConfigMap")
        .unwrap();
    let config = config["data"]["config.yaml"].as_str().unwrap();
    let settings: tenant_cp::Settings = serde_saphyr::from_str(config).unwrap();
    assert!(
        settings.images.ccm.contains("@sha256:"),
        "{}",
        settings.images.ccm
    );
}

/// A registry in this machine's memory, for as long as this lives.
struct Registry {
    program: Child,
    at: String,
    _disk: tempfile::TempDir,
}

impl Registry {
    fn start(crane: &Path) -> Self {
        let disk = tempfile::tempdir().unwrap();
        let mut program = Command::new(crane)
            .args(["registry", "serve", "--address", "127.0.0.1:0", "--disk"])
            .arg(disk.path())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It says at which port it listens, and then a line for each request.
        let mut said = BufReader::new(program.stderr.take().unwrap());
        let mut port = None;
        while port.is_none() {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended");
            let digits = |text: &str| {
                text.chars()
                    .take_while(char::is_ascii_digit)
                    .collect::<String>()
            };
            port = line
                .split_once("port ")
                .map(|(_, rest)| digits(rest))
                .filter(|digits| !digits.is_empty());
        }
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self {
            program,
            at: format!("127.0.0.1:{}", port.unwrap()),
            _disk: disk,
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn a_registry_has_the_same_digests_and_helm_pulls_the_same_chart() {
    let (Some(helm), Some(crane)) = (helm(), crane()) else {
        return;
    };
    let release = Release::make();
    let registry = Registry::start(&crane);
    let contents = release.contents();
    let run = |args: &[&str]| {
        let mut command = Command::new(&crane);
        output(command.args(args).arg("--insecure"))
    };
    for image in contents["images"].as_array().unwrap() {
        let name = image["name"].as_str().unwrap();
        let name = name.replacen("ghcr.io", &registry.at, 1);
        let layout = release.out().join(image["layout"].as_str().unwrap());
        run(&["push", layout.to_str().unwrap(), &name]);
        assert_eq!(run(&["digest", &name]).trim(), image["digest"], "{name}");
        let manifests = image["manifests"].as_object().unwrap();
        for (architecture, digest) in manifests {
            let platform = format!("linux/{architecture}");
            assert_eq!(
                run(&["digest", "--platform", &platform, &name]).trim(),
                digest,
                "{name}"
            );
            let config = run(&["config", "--platform", &platform, &name]);
            let config: Value = serde_json::from_str(&config).unwrap();
            let labels = &config["config"]["Labels"];
            assert_eq!(labels["org.opencontainers.image.version"], VERSION);
            assert_eq!(
                labels["org.opencontainers.image.revision"],
                contents["revision"]
            );
            assert_eq!(config["created"], contents["created"]);
        }
        // Every layer unpacks to what the configuration says.
        run(&["validate", "--remote", &name]);
    }
    let operator = format!("{}/covey-dev/operator:{VERSION}", registry.at);
    let exported = release.folder.path().join("operator.tar");
    run(&[
        "export",
        "--platform",
        "linux/arm64",
        &operator,
        exported.to_str().unwrap(),
    ]);
    let text = output(
        Command::new("tar")
            .arg("-xOf")
            .arg(&exported)
            .arg("operator"),
    );
    assert_eq!(text, "#!/bin/sh\necho operator arm64\n");
    let bill = output(
        Command::new("tar")
            .arg("-xOf")
            .arg(&exported)
            .arg("usr/share/sbom/operator.cdx.json"),
    );
    let bill: Value = serde_json::from_str(&bill).unwrap();
    assert_eq!(bill["metadata"]["component"]["name"], "operator");

    let chart = format!("{}/charts/covey", registry.at);
    let layout = release.out().join("chart");
    run(&[
        "push",
        layout.to_str().unwrap(),
        &format!("{chart}:{VERSION}"),
    ]);
    let pulled = tempfile::tempdir().unwrap();
    let to = pulled.path().to_str().unwrap();
    let pull = [
        "pull",
        &format!("oci://{chart}"),
        "--version",
        VERSION,
        "--plain-http",
    ];
    helm.run(&[&pull[..], &["--destination", to]].concat())
        .unwrap_or_else(|error| panic!("{error}"));
    let name = release.chart();
    let pulled = std::fs::read(pulled.path().join(name.file_name().unwrap())).unwrap();
    assert!(pulled == std::fs::read(name).unwrap(), "the chart differs");
    assert_eq!(json!(contents["chart"]["size"]), json!(pulled.len()));
}
