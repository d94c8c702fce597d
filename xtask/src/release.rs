//! `cargo xtask release`: everything that is published of one version, in one folder, without a container engine.
//!
//! | Module | What it does |
//! |---|---|
//! | `catalogue`, `architecture` | which programs, and for what; pure |
//! | `version`, `changelog` | one number everywhere, and what people wrote of it; pure |
//! | `checkout`, `origin` | the commit, and what is said of it |
//! | `build`, `elf` | programs, static and without this machine's paths |
//! | `sbom` | what each is made of; pure |
//! | `images`, `chart`, `cli` | what is made of them |
//! | `advisories` | whether something that is compiled in has a published hole |
//! | `contents` | what the release says of itself |
//!
//! Invariant: the same commit is the same release, byte for byte, from another folder and on another day, on a machine
//! with the same toolchain and the same packages, which `release.json` names. A folder that is there is a whole release.

mod advisories;
mod architecture;
mod build;
mod catalogue;
mod changelog;
mod chart;
mod checkout;
mod cli;
mod contents;
mod elf;
mod images;
mod origin;
mod sbom;
mod version;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use kit_oci::published::{Artefact, Published, write_artefact};
use serde_json::Value;

use self::architecture::Architecture;
use self::build::{Built, Folders};
use self::catalogue::{CLI, PROGRAMS};
use self::changelog::Notes;
use self::contents::{Advisories, Contents, Named, Toolchain, named};
use self::origin::Origin;
use crate::generated;

/// Where the chart is.
const CHART: &str = "deploy/charts/covey";
/// Helm's media types of charts in registries (helm, `pkg/registry/constants.go`; HIP 17).
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Packages of Debian that the CSI driver's image has files of.
const PACKAGES: [&str; 2] = ["e2fsprogs", "xfsprogs"];

/// Arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The version that is released; this checkout has to say the same everywhere
    #[arg(long)]
    version: String,
    /// Where the release goes; the folder is made
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What programs are for; may be repeated. This machine's own has to be among them. Without it that one alone
    #[arg(long = "arch", value_enum, value_name = "ARCHITECTURE")]
    architectures: Vec<Architecture>,
    /// Do not ask for published advisories, which takes the network; release.json says so
    #[arg(long)]
    without_advisories: bool,
    /// Take DIR/<architecture>/<binary> for the programs, whatever they are, and this checkout as it is
    #[arg(long, value_name = "DIR", hide = true)]
    stand_ins: Option<PathBuf>,
}

/// What is released, and of what.
struct Release<'a> {
    root: &'a Path,
    origin: Origin,
    notes: Notes,
    /// Whether programs are stand-ins.
    is_played: bool,
}

/// Runs the command.
///
/// # Errors
/// The checkout is not what is to be released, this machine lacks something, or a step fails.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = generated::root()?;
    let version = version::parse(&args.version)?;
    let [cargo, chart, values] = version::FILES.map(|path| read(&root, path));
    version::check(&version, &[cargo?, chart?, values?])?;
    let notes = changelog::notes(&read(&root, "CHANGELOG.md")?, &args.version)?;
    let commit = checkout::read(&root)?;
    let architectures = architectures(&args.architectures, Architecture::own())?;
    if args.stand_ins.is_none() {
        checkout::clean(&commit)?;
        for architecture in &architectures {
            build::possible(*architecture)?;
        }
    }
    is_free(&args.out)?;
    let asked_by = match args.without_advisories || args.stand_ins.is_some() {
        true => None,
        false => Some(advisories::ask(&root)?),
    };
    let files = checkout::files(&root, CHART)?;
    let source = chart::configuration(&files)?;
    let source = source.pointer("/sources/0").and_then(Value::as_str);
    let source = source.context("Chart.yaml names no sources")?.to_owned();
    let release = Release {
        root: &root,
        origin: Origin {
            version,
            commit,
            source,
        },
        notes,
        is_played: args.stand_ins.is_some(),
    };
    let metadata = release.metadata(architectures[0])?;
    let folders = Folders {
        checkout: root.clone(),
        cargo_home: cargo_home()?,
        target: metadata.target_directory,
    };
    let mut built = BTreeMap::new();
    for architecture in architectures {
        let made = match &args.stand_ins {
            Some(folder) => build::stand_ins(folder, architecture),
            None => build::build(&folders, architecture, &release.origin.commit),
        };
        built.insert(architecture, made?);
    }
    let parent = args
        .out
        .parent()
        .filter(|path| !path.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    fs::create_dir_all(parent).with_context(|| format!("{} cannot be made", parent.display()))?;
    let partial = tempfile::TempDir::new_in(parent)?;
    release.write(partial.path(), &folders, &built, &files, asked_by)?;
    fs::set_permissions(partial.path(), fs::Permissions::from_mode(0o755))?;
    if args.out.exists() {
        fs::remove_dir(&args.out)?; // it is empty
    }
    fs::rename(partial.path(), &args.out)
        .with_context(|| format!("{} cannot be put in place", args.out.display()))?;
    // Gone by the rename: there is nothing left to remove.
    drop(partial.keep());
    eprintln!(
        "{} is Covey {}: see release.json there",
        args.out.display(),
        args.version
    );
    Ok(())
}

impl Release<'_> {
    /// Writes all of it into a folder.
    fn write(
        &self,
        out: &Path,
        folders: &Folders,
        built: &BTreeMap<Architecture, Built>,
        chart: &chart::Files,
        asked_by: Option<String>,
    ) -> Result<()> {
        let mut left_out = Vec::new();
        let programs = self.programs(out, folders, built)?;
        let mut digests = BTreeMap::new();
        let mut written = Vec::new();
        for program in &PROGRAMS {
            let layout = format!("images/{}", program.image);
            let published = images::write(
                &self.origin,
                out,
                &layout,
                program,
                &programs,
                &mut left_out,
            )?;
            digests.insert(program.image, published.digest.clone());
            written.push(contents::Image {
                name: format!("{}:{}", program.repository(), self.origin.version),
                layout,
                digest: published.digest,
                manifests: published.manifests,
            });
        }
        let own = Architecture::own().context("this machine's architecture has no releases")?;
        let cli = cli::files(self.root, &out.join(file(own, CLI)))?;
        let mut archives = Vec::new();
        for architecture in built.keys() {
            archives.push(self.archive(out, *architecture, &cli)?);
        }
        let platforms = built.keys().map(|one| format!("linux/{}", one.name()));
        let said = chart::Said {
            version: &self.origin.version,
            digests: &digests,
            platforms: &platforms.collect::<Vec<_>>(),
            changes: &self.notes.changes,
        };
        let chart = self.chart(out, &chart::released(chart, &said)?)?;
        let others = chart::others(&read(self.root, version::FILES[2])?)?;
        fs::write(out.join("notes.md"), &self.notes.text)?;
        fs::copy(self.root.join("LICENSE"), out.join("LICENSE"))?;
        let contents = Contents {
            api_version: "release.covey.dev/v1",
            version: self.origin.version.to_string(),
            revision: self.origin.commit.hash.clone(),
            created: self.origin.commit.created.clone(),
            toolchain: self.toolchain(folders)?,
            advisories: Advisories {
                asked: asked_by.is_some(),
                by: asked_by,
            },
            programs,
            images: written,
            chart,
            cli: archives,
            images_of_others: others,
            left_out,
            stand_ins: self.is_played,
        };
        for one in &contents.left_out {
            eprintln!("left out: {one}");
        }
        let text = serde_json::to_string_pretty(&contents)? + "\n";
        fs::write(out.join("release.json"), text)?;
        fs::write(out.join("SHA256SUMS"), contents::sums(out)?)?;
        Ok(())
    }

    /// Copies programs, and writes what each is made of.
    fn programs(
        &self,
        out: &Path,
        folders: &Folders,
        built: &BTreeMap<Architecture, Built>,
    ) -> Result<Vec<contents::Program>> {
        let linked = build::linked()?;
        let checksums = sbom::checksums(&read(self.root, "Cargo.lock")?)?;
        let mut programs = Vec::new();
        fs::create_dir_all(out.join("sbom"))?;
        for (architecture, built) in built {
            let metadata = self.metadata(*architecture)?;
            fs::create_dir_all(out.join(folder(*architecture)))?;
            for program in &PROGRAMS {
                let name = program.binary;
                let from = built.programs.get(name);
                let from = from.with_context(|| format!("there is no {name}"))?;
                let bytes =
                    fs::read(from).with_context(|| format!("{} cannot be read", from.display()))?;
                if !self.is_played {
                    elf::check(&bytes, *architecture).with_context(|| name.to_owned())?;
                    if let Some(path) = folders.found_in(&bytes) {
                        bail!(
                            "{name} has a path of this machine in it: {}",
                            path.display()
                        );
                    }
                }
                let place = out.join(file(*architecture, name));
                fs::write(&place, &bytes)?;
                fs::set_permissions(&place, fs::Permissions::from_mode(0o755))?;
                let about = sbom::About {
                    package: program.package,
                    name,
                    sha256: &contents::sha256(&bytes),
                    created: &self.origin.commit.created,
                    checksums: &checksums,
                    linked: &linked,
                };
                let bill = sbom::bill(&metadata, built.compiled.as_ref(), &about)
                    .with_context(|| name.to_owned())?;
                let sbom = format!("sbom/{name}-linux-{}.cdx.json", architecture.name());
                fs::write(out.join(&sbom), serde_json::to_string_pretty(&bill)? + "\n")?;
                programs.push(contents::Program {
                    name,
                    architecture: architecture.name(),
                    file: named(out, &file(*architecture, name))?,
                    sbom: named(out, &sbom)?,
                });
            }
        }
        Ok(programs)
    }

    /// The archive with the command line.
    fn archive(
        &self,
        out: &Path,
        architecture: Architecture,
        files: &[kit_oci::image::File],
    ) -> Result<Named> {
        let name = format!(
            "covey-{}-linux-{}",
            self.origin.version,
            architecture.name()
        );
        let program = out.join(file(architecture, CLI));
        let path = format!("{name}.tar.gz");
        let mut archive = fs::File::create(out.join(&path))?;
        let files = cli::archived(&name, &program, files);
        kit_oci::tar::gzip(&files, self.origin.commit.seconds, &mut archive)?;
        named(out, &path)
    }

    /// The chart as an archive, and as what helm makes of it in a registry.
    fn chart(&self, out: &Path, files: &chart::Files) -> Result<contents::Chart> {
        let path = format!("{}-{}.tgz", chart::NAME, self.origin.version);
        let mut archive = Vec::new();
        kit_oci::tar::gzip(
            &chart::archived(files),
            self.origin.commit.seconds,
            &mut archive,
        )?;
        fs::write(out.join(&path), &archive)?;
        let artefact = Artefact {
            config: (CHART_CONFIG, &chart::configuration(files)?),
            layer: (CHART_CONTENT, &archive),
            annotations: &self.origin.labels(chart::NAME),
        };
        let layout = "chart".to_owned();
        let Published { digest, .. } = write_artefact(
            &out.join(&layout),
            &self.origin.version.to_string(),
            &artefact,
        )?;
        Ok(contents::Chart {
            file: named(out, &path)?,
            layout,
            digest,
        })
    }

    fn metadata(&self, architecture: Architecture) -> Result<sbom::Metadata> {
        let mut cargo = lab::run::cargo();
        cargo
            .args([
                "metadata",
                "--locked",
                "--format-version=1",
                "--filter-platform",
            ])
            .arg(architecture.target())
            .current_dir(self.root);
        sbom::metadata(&lab::run::output(&mut cargo)?)
    }

    fn toolchain(&self, folders: &Folders) -> Result<Toolchain> {
        let first = |command: &mut Command| {
            let said = lab::run::output(command)?;
            Ok::<_, anyhow::Error>(said.lines().next().unwrap_or_default().to_owned())
        };
        // Which folder it was is no part of the release.
        let told = |flag: String| match flag.strip_prefix("--remap-path-prefix=") {
            Some(map) => {
                let name = map.rsplit('=').next().unwrap_or_default();
                format!("--remap-path-prefix=…={name}")
            }
            None => flag.clone(),
        };
        let version = |package: &str| Some((package.to_owned(), build::package_version(package)?));
        let packages = PACKAGES.into_iter().chain(["libc6-dev"]);
        Ok(Toolchain {
            rustc: first(Command::new("rustc").arg("--version"))?,
            cc: first(Command::new("cc").arg("--version"))?,
            flags: folders.flags().into_iter().map(told).collect(),
            packages: packages.filter_map(version).collect(),
        })
    }
}

/// Each once, in one order.
fn architectures(asked: &[Architecture], own: Option<Architecture>) -> Result<Vec<Architecture>> {
    let Some(own) = own else {
        bail!("releases are made on machines of x86-64 and of 64-bit ARM");
    };
    let mut all = asked.to_vec();
    if all.is_empty() {
        all.push(own);
    }
    all.sort();
    all.dedup();
    ensure!(
        all.contains(&own),
        "--arch {} has to be asked for, too: its command line prints the completions and manual pages of all",
        own.name()
    );
    Ok(all)
}

/// What is there is not overwritten: it may be a release that somebody has.
fn is_free(out: &Path) -> Result<()> {
    let Ok(mut entries) = fs::read_dir(out) else {
        ensure!(!out.exists(), "{} is no folder", out.display());
        return Ok(());
    };
    ensure!(
        entries.next().is_none(),
        "{} is not empty: name another folder with --out, or remove it",
        out.display()
    );
    Ok(())
}

fn folder(architecture: Architecture) -> String {
    format!("programs/linux-{}", architecture.name())
}

fn file(architecture: Architecture, binary: &str) -> String {
    format!("{}/{binary}", folder(architecture))
}

fn read(root: &Path, path: &str) -> Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read"))
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(home) = std::env::var_os("CARGO_HOME") {
        return Ok(home.into());
    }
    let home = std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?;
    Ok(Path::new(&home).join(".cargo"))
}

#[cfg(test)]
mod tests {
    use super::Architecture::{Amd64, Arm64};
    use super::*;

    #[test]
    fn this_machines_own_architecture_is_always_among_them() {
        let of = |asked: &[Architecture]| architectures(asked, Some(Amd64));
        assert_eq!(of(&[]).unwrap(), [Amd64]);
        assert_eq!(of(&[Arm64, Amd64, Arm64]).unwrap(), [Amd64, Arm64]);
        let error = of(&[Arm64]).unwrap_err().to_string();
        assert!(error.contains("--arch amd64"), "{error}");
        assert!(architectures(&[Arm64], None).is_err());
    }

    #[test]
    fn a_folder_that_has_something_in_it_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        is_free(folder.path()).unwrap();
        is_free(&folder.path().join("new")).unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let error = is_free(folder.path()).unwrap_err().to_string();
        assert!(error.contains("not empty"), "{error}");
        assert!(is_free(&folder.path().join("a")).is_err());
    }

    #[test]
    fn places_of_programs_name_their_architecture() {
        assert_eq!(file(Arm64, "covey"), "programs/linux-arm64/covey");
        assert_eq!(PROGRAMS[0].repository(), "ghcr.io/covey-dev/operator");
    }
}
