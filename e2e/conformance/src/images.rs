//! What the tests' pods run, under the names that the tests ask for.
//!
//! Upstream's images are Alpine's; no image can be fetched here, so these are made of Debian's packages and of the
//! programs that upstream builds from the same sources. Invariant: an image that is not made is absent: a test that
//! wants it fails by name, and none passes on something else by chance. Stand-ins are in [`Content`].

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use kit_oci::image::{File, Image, Layer};
use lab::{debian::Tree, images, packages, programs::Bins, progress::Progress};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What upstream's Dockerfile of agnhost installs, by Debian's names. Its netcat has to be OpenBSD's: network tests
/// call `nc -v -t -w`, which busybox does not know; its wget busybox' own, which tries once: GNU's tries twenty times, and
/// a test that asks whether something is unreachable waits minutes for each answer.
const TREE: Tree<'static> = Tree {
    name: "agnhost",
    packages: &[
        "bash",
        "bind9-dnsutils",
        "curl",
        "iperf",
        "iproute2",
        "netcat-openbsd",
        "procps",
    ],
    without: &[
        "/usr/share/doc/*",
        "/usr/share/info/*",
        "/usr/share/locale/*",
        "/usr/share/man/*",
    ],
};
/// Users of upstream's agnhost: tests of supplementary groups look the last one up.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh
";
const GROUP: &str = "root:x:0:
tty:x:5:
nogroup:x:65534:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
";
const BUSYBOX: &str = "/bin/busybox";
const SHELL: &str = "/bin/sh";
/// The shell of Debian's busybox, which is 1.35, says what upstream's says where it fails, word for word as tests compare
/// it, but drops variables that are no shell's names, such as `data-1`. Tests of ConfigMaps and Secrets look these up,
/// and bash gives them on.
const CHOOSES_SHELL: &str = r#"#!/bin/bash
while IFS= read -r -d '' _entry; do
  case ${_entry%%=*} in
    *[!A-Za-z0-9_]* | [0-9]*) _bash=1 ;;
  esac
done 2>/dev/null </proc/self/environ
[ -z "$_bash" ] || exec -a "$0" /bin/bash "$@"
exec -a "$0" /bin/busybox "$@"
"#;
const EXECUTABLE: u32 = 0o755;
/// Set user and group ID, which is what its test is about.
const SETUID: u32 = 0o6755;
/// The user of upstream's image `nonroot`.
const NONROOT: u32 = 1234;

/// What an image that a test names holds here.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Content {
    /// Upstream's program with the tools that its image has.
    Agnhost,
    /// agnhost as a server of HTTP on port 80, instead of nginx: tests start it and ask for an answer.
    Server,
    /// agnhost that serves `data.json` of the picture of this name, without the picture.
    Picture(&'static str),
    /// A user of its own by the image alone.
    NonRoot,
    /// A program with set user ID.
    NoNewPrivileges,
    Busybox,
    /// `dig` and what it needs.
    Dns,
    SampleApiServer,
    Etcd,
    Pause,
}

/// By the last part of its name. None where no test of conformance runs it.
fn content(name: &str) -> Option<Content> {
    let (_, last) = name.rsplit_once('/').unwrap_or(("", name));
    let (repository, _) = last.rsplit_once(':').unwrap_or((last, ""));
    if name.starts_with("invalid.registry") || name.starts_with("gcr.io/authenticated") {
        return None;
    }
    Some(match repository {
        "agnhost" => Content::Agnhost,
        "nginx" | "httpd" => Content::Server,
        "kitten" => Content::Picture("kitten.json"),
        "nautilus" => Content::Picture("nautilus.json"),
        "nonroot" => Content::NonRoot,
        "nonewprivs" => Content::NoNewPrivileges,
        "busybox" => Content::Busybox,
        "jessie-dnsutils" => Content::Dns,
        "sample-apiserver" => Content::SampleApiServer,
        "etcd" => Content::Etcd,
        "pause" => Content::Pause,
        _ => return None,
    })
}

/// Those of `names` that can be made.
pub(crate) fn all(names: &[String], bins: &Bins, progress: &Progress) -> Result<Vec<Image>> {
    packages::ensure(&packages::CONFORMANCE, progress)?;
    let system = Layer::Archive(TREE.archive(progress)?);
    let layers = Layers::of(bins, system)?;
    let wanted: BTreeMap<_, _> = names
        .iter()
        .filter_map(|name| Some((name.as_str(), content(name)?)))
        .collect();
    let images = wanted.into_iter();
    images
        .map(|(name, content)| layers.image(name, content, bins))
        .collect()
}

/// What several images share.
struct Layers {
    system: Layer,
    agnhost: Layer,
    busybox: Layer,
}

impl Layers {
    fn of(bins: &Bins, system: Layer) -> Result<Self> {
        let mut busybox = images::busybox()?;
        let program = busybox.iter().find(|file| file.path == BUSYBOX);
        let mut wget = program.cloned().context("busybox has no program")?;
        "/usr/bin/wget".clone_into(&mut wget.path);
        let agnhost = vec![
            wget,
            File::program("/agnhost", bins.path("agnhost")?),
            File::link("/agnhost-2", "agnhost"),
            File::data("/localhost.crt", bins.path("localhost.crt")?),
            File::data("/localhost.key", bins.path("localhost.key")?),
            File::directory("/uploads", 0o755),
            File::directory("/home/user-defined-in-image", 0o755),
            File::text("/etc/passwd", PASSWD),
            File::text("/etc/group", GROUP),
        ];
        busybox.retain(|file| file.path != SHELL);
        let mut shell = File::text(SHELL, CHOOSES_SHELL);
        shell.mode = EXECUTABLE;
        busybox.extend([
            images::bash()?,
            shell,
            File::text("/etc/passwd", PASSWD),
            File::text("/etc/group", GROUP),
            File::directory("/tmp", 0o1777),
            File::directory("/root", 0o700),
        ]);
        Ok(Self {
            system,
            agnhost: Layer::Files(agnhost),
            busybox: Layer::Files(busybox),
        })
    }

    fn image(&self, name: &str, content: Content, bins: &Bins) -> Result<Image> {
        let image = |layers: Vec<Layer>, entrypoint: &[&str], command: &[&str]| Image {
            name: name.to_owned(),
            layers,
            entrypoint: entrypoint.iter().copied().map(str::to_owned).collect(),
            command: command.iter().copied().map(str::to_owned).collect(),
            user: 0,
            env: vec![PATH.to_owned()],
        };
        let agnhost = || vec![self.system.clone(), self.agnhost.clone()];
        let own = |path: &str, program: &str| {
            anyhow::Ok(Layer::Files(vec![File::program(path, bins.path(program)?)]))
        };
        Ok(match content {
            Content::Agnhost => image(agnhost(), &["/agnhost"], &["pause"]),
            Content::Server => image(agnhost(), &["/agnhost"], &["netexec", "--http-port=80"]),
            Content::Picture(data) => {
                let data = File::data("/data.json", bins.path(data)?);
                let layers = [agnhost(), vec![Layer::Files(vec![data])]].concat();
                image(layers, &["/agnhost"], &["test-webserver"])
            }
            Content::NonRoot => Image {
                user: NONROOT,
                ..image(agnhost(), &["/agnhost"], &["pause"])
            },
            Content::NoNewPrivileges => {
                let mut program = File::program("/usr/local/bin/nnp", bins.path("nnp")?);
                program.mode = SETUID;
                let layers = vec![self.busybox.clone(), Layer::Files(vec![program])];
                image(layers, &[], &["nnp"])
            }
            Content::Busybox => image(vec![self.busybox.clone()], &[], &["sh"]),
            Content::Dns => image(vec![self.system.clone()], &[], &["bash"]),
            Content::SampleApiServer => {
                let layers = vec![
                    self.busybox.clone(),
                    own("/sample-apiserver", "sample-apiserver")?,
                ];
                image(layers, &["/sample-apiserver"], &[])
            }
            Content::Etcd => Image {
                name: name.to_owned(),
                user: 0, // its data is where it is started
                ..images::etcd(bins)?
            },
            Content::Pause => Image {
                name: name.to_owned(),
                ..images::pause(bins)?
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_name_in_whatever_registry_and_version() {
        let cases = [
            (
                "registry.k8s.io/e2e-test-images/agnhost:2.59",
                Some(Content::Agnhost),
            ),
            (
                "registry.k8s.io/e2e-test-images/agnhost:2.55",
                Some(Content::Agnhost),
            ),
            (
                "registry.k8s.io/e2e-test-images/nginx:1.15-4",
                Some(Content::Server),
            ),
            ("registry.k8s.io/etcd:3.6.6-0", Some(Content::Etcd)),
            ("localhost:5000/busybox", Some(Content::Busybox)),
            ("registry.k8s.io/e2e-test-images/perl:5.26", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(content(name), wanted, "{name}");
        }
    }

    #[test]
    fn what_tests_want_to_be_missing_is_missing() {
        assert_eq!(content("invalid.registry.k8s.io/invalid/alpine:3.1"), None);
        assert_eq!(
            content("gcr.io/authenticated-image-pulling/agnhost:2.6"),
            None
        );
    }
}
