//! Builds the programs of a release: static, and with no path of this machine in them.
//!
//! Invariant: what decides the bytes is the commit, Cargo.lock, the toolchain and the C compiler, all of which
//! `release.json` names; not the folder, the user or the time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::architecture::Architecture;
use super::catalogue::PROGRAMS;
use super::checkout::Commit;
use super::sbom::{Compiled, compiled};

/// What was built for one architecture.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// Where each binary is.
    pub(crate) programs: BTreeMap<&'static str, PathBuf>,
    /// What of; not known of stand-ins.
    pub(crate) compiled: Option<Compiled>,
}

/// What a build depends on besides the checkout.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    pub(crate) checkout: PathBuf,
    pub(crate) cargo_home: PathBuf,
    pub(crate) target: PathBuf,
}

impl Folders {
    /// What each is called in programs. Of two that fit rustc takes the last, and the target folder may be in the
    /// checkout.
    fn names(&self) -> [(&Path, &'static str); 3] {
        [
            (&self.cargo_home, "/cargo"),
            (&self.checkout, "/covey"),
            (&self.target, "/target"),
        ]
    }

    /// Flags of rustc. Cargo leaves flags out of names of crates and folders when one of them maps paths.
    pub(crate) fn flags(&self) -> Vec<String> {
        let map =
            |(path, name): (&Path, &str)| format!("--remap-path-prefix={}={name}", path.display());
        let maps = self.names().into_iter().map(map);
        ["-Ctarget-feature=+crt-static".to_owned()]
            .into_iter()
            .chain(maps)
            .collect()
    }

    /// Flags of the C compiler, which some crates need.
    fn c_flags(&self) -> String {
        let map =
            |(path, name): (&Path, &str)| format!("-ffile-prefix-map={}={name}", path.display());
        self.names().map(map).join(" ")
    }

    /// Such a path in a program would be this machine's.
    pub(crate) fn found_in(&self, bytes: &[u8]) -> Option<&Path> {
        let paths = self.names().into_iter().map(|(path, _)| path);
        let mut paths = paths.filter(|path| path.as_os_str().len() > 1);
        paths.find(|path| {
            let wanted = path.as_os_str().as_encoded_bytes();
            bytes.windows(wanted.len()).any(|window| window == wanted)
        })
    }
}

/// Checks that this machine can build for it.
///
/// # Errors
/// With what to install.
pub(crate) fn possible(architecture: Architecture) -> Result<()> {
    let target = architecture.target();
    let sysroot = lab::run::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib").join(target);
    let is_own = Architecture::own() == Some(architecture);
    let has_compiler =
        is_own || lab::run::succeeds(Command::new(architecture.cross_compiler()).arg("--version"));
    match architecture.lacks(libraries.join("lib").is_dir(), has_compiler) {
        None => Ok(()),
        Some(lacks) => bail!(lacks),
    }
}

/// Builds all programs for one architecture, by one cargo. Its own words are shown.
///
/// # Errors
/// The build fails.
pub(crate) fn build(
    folders: &Folders,
    architecture: Architecture,
    commit: &Commit,
) -> Result<Built> {
    let target = architecture.target();
    let variable = target.replace('-', "_");
    let mut command = lab::run::cargo();
    command
        .args([
            "build",
            "--locked",
            "--release",
            "--workspace",
            "--target",
            target,
        ])
        .arg("--message-format=json-render-diagnostics");
    for program in &PROGRAMS {
        command.args(["--bin", program.binary]);
    }
    // Separated by what no path has.
    command
        .env("CARGO_ENCODED_RUSTFLAGS", folders.flags().join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        .env("CARGO_INCREMENTAL", "0")
        .env(format!("CFLAGS_{variable}"), folders.c_flags())
        .env("SOURCE_DATE_EPOCH", commit.seconds.to_string())
        .env("ZERO_AR_DATE", "1")
        .current_dir(&folders.checkout)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    if Architecture::own() != Some(architecture) {
        let compiler = architecture.cross_compiler();
        let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
        command
            .env(linker, compiler)
            .env(format!("CC_{variable}"), compiler);
    }
    let output = command.output().context("cargo cannot be run")?;
    if !output.status.success() {
        bail!("cargo cannot build for {target}; its message is above");
    }
    let messages = String::from_utf8(output.stdout).context("cargo said what is no UTF-8")?;
    let executables: Vec<_> = messages.lines().filter_map(lab::run::built).collect();
    let mut programs = BTreeMap::new();
    for program in &PROGRAMS {
        let found = executables
            .iter()
            .find(|path| path.ends_with(program.binary));
        let found = found.with_context(|| format!("cargo built no {}", program.binary))?;
        programs.insert(program.binary, found.clone());
    }
    let compiled = Some(compiled(&messages, target)?);
    Ok(Built { programs, compiled })
}

/// Programs that somebody put into `folder/<architecture>/<binary>`.
///
/// # Errors
/// One is missing.
pub(crate) fn stand_ins(folder: &Path, architecture: Architecture) -> Result<Built> {
    let mut programs = BTreeMap::new();
    for program in &PROGRAMS {
        let path = folder.join(architecture.name()).join(program.binary);
        if !path.is_file() {
            bail!("{} is not there", path.display());
        }
        programs.insert(program.binary, path);
    }
    Ok(Built {
        programs,
        compiled: None,
    })
}

/// What is linked into every program besides crates, and what linked it: name, version and licence of each.
///
/// # Errors
/// rustc does not say its version.
pub(crate) fn linked() -> Result<Vec<(String, String, String)>> {
    let rustc = lab::run::output(Command::new("rustc").arg("--version"))?;
    let rustc = rustc
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let mut linked = vec![("rust-std".to_owned(), rustc, "MIT OR Apache-2.0".to_owned())];
    // glibc, which is linked statically; what its version is elsewhere than on Debian is not known.
    let glibc = package_version("libc6-dev").unwrap_or_else(|| "unknown".to_owned());
    linked.push(("glibc".to_owned(), glibc, "LGPL-2.1-or-later".to_owned()));
    Ok(linked)
}

/// The version of a package of Debian that is installed.
pub(crate) fn package_version(package: &str) -> Option<String> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${Version}", package]);
    let version = lab::run::output(&mut query).ok()?;
    (!version.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(at: &str) -> Folders {
        Folders {
            checkout: format!("{at}/covey").into(),
            cargo_home: format!("{at}/.cargo").into(),
            target: format!("{at}/covey/target").into(),
        }
    }

    #[test]
    fn each_folder_has_one_name_and_the_inner_one_comes_last() {
        assert_eq!(
            folders("/home/a").flags(),
            [
                "-Ctarget-feature=+crt-static",
                "--remap-path-prefix=/home/a/.cargo=/cargo",
                "--remap-path-prefix=/home/a/covey=/covey",
                "--remap-path-prefix=/home/a/covey/target=/target",
            ]
        );
    }

    #[test]
    fn a_path_of_this_machine_in_a_program_is_found() {
        let folders = folders("/home/a");
        assert_eq!(folders.found_in(b"\0/covey/src/main.rs\0"), None);
        let found = folders.found_in(b"\0/home/a/.cargo/registry/x.rs\0");
        assert_eq!(found, Some(Path::new("/home/a/.cargo")));
    }

    /// A package of two files, one of which ends with the path of the other in its message, built as releases are.
    fn program(folder: &Path) -> Vec<u8> {
        let root = folder.join("tree");
        std::fs::create_dir_all(root.join("src")).unwrap();
        std::fs::write(
            root.join("Cargo.toml"),
            "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2024\"\nbuild = \"build.rs\"\n[workspace]\n\
             [profile.release]\nstrip = true\n",
        )
        .unwrap();
        // What is generated while it is built has a path, too.
        let generated = "fn main() { let out = std::env::var(\"OUT_DIR\").unwrap();\n\
             std::fs::write(out + \"/made.rs\", \"pub fn two(x: Option<u8>) -> u8 { x.expect(\\\"b\\\") }\").unwrap(); }";
        std::fs::write(root.join("build.rs"), generated).unwrap();
        std::fs::write(
            root.join("src/main.rs"),
            "include!(concat!(env!(\"OUT_DIR\"), \"/made.rs\"));\n\
             fn main() { let x = std::env::args().count() as u8; println!(\"{}\", two((x != 7).then_some(x)) + one(x)) }\n\
             fn one(x: u8) -> u8 { if x > 100 { panic!(\"a\") } x }\n",
        )
        .unwrap();
        let folders = Folders {
            checkout: root.clone(),
            cargo_home: folder.join("home"),
            target: root.join("target"),
        };
        let target = Architecture::own().unwrap().target();
        let mut cargo = lab::run::cargo();
        cargo
            .args([
                "build",
                "--release",
                "--offline",
                "--quiet",
                "--target",
                target,
            ])
            .env("CARGO_ENCODED_RUSTFLAGS", folders.flags().join("\u{1f}"))
            .env("CARGO_TARGET_DIR", &folders.target)
            .env_remove("CARGO_BUILD_TARGET")
            .current_dir(&root);
        lab::run::output(&mut cargo).unwrap();
        let built = folders.target.join(target).join("release/small");
        let bytes = std::fs::read(built).unwrap();
        assert_eq!(folders.found_in(&bytes), None);
        super::super::elf::check(&bytes, Architecture::own().unwrap()).unwrap();
        bytes
    }

    #[test]
    fn a_program_has_the_same_bytes_from_another_folder() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let deep = other.path().join("a/deeper/folder");
        std::fs::create_dir_all(&deep).unwrap();
        assert!(program(one.path()) == program(&deep), "the bytes differ");
    }
}
