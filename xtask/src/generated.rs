//! Files that are generated and committed: written by a command, compared by its `--check`.
//!
//! Invariant: `--check` writes nothing, and its message names the command that mends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Crate `api`'s example that prints its definitions.
const EXAMPLE: &str = "crds";

/// What every command that generates files takes.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Args {
    /// Write nothing; fail when a committed file is not what would be written
    #[arg(long)]
    pub(crate) check: bool,
}

/// One generated file.
#[derive(Debug)]
pub(crate) struct File {
    /// From the top of the repository.
    pub(crate) path: PathBuf,
    /// All of it.
    pub(crate) text: String,
}

/// The top of the repository that the current folder is in. Not where this program was built: two
/// checkouts may share a folder of build results.
///
/// # Errors
/// When the current folder is in none.
pub(crate) fn root() -> Result<PathBuf> {
    Ok(lab::Layout::discover()?.checkout().to_owned())
}

/// Writes `files`, or compares them. Other `.yaml` files in `folders` are left-overs: removed, or
/// reported. `command` is what to run when the comparison fails.
///
/// # Errors
/// When a file cannot be read or written, or differs.
pub(crate) fn sync(args: Args, files: &[File], folders: &[&str], command: &str) -> Result<()> {
    let root = root()?;
    let mut differences = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        let present = fs::read_to_string(&path).unwrap_or_default();
        if present == file.text {
            continue;
        }
        if args.check {
            differences.push(difference(&file.path, &present, &file.text));
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("could not create {}", folder.display()))?;
        }
        fs::write(&path, &file.text)
            .with_context(|| format!("could not write {}", path.display()))?;
        eprintln!("wrote {}", file.path.display());
    }
    for path in left_overs(&root, files, folders)? {
        if args.check {
            differences.push(format!("{} is not generated any more", path.display()));
        } else {
            fs::remove_file(root.join(&path))
                .with_context(|| format!("could not remove {}", path.display()))?;
            eprintln!("removed {}", path.display());
        }
    }
    if !differences.is_empty() {
        bail!(
            "{}\nrun `{command}` and commit what it writes",
            differences.join("\n")
        );
    }
    Ok(())
}

/// What the example `crds`, or a program of the workspace, prints with these arguments. Both are asked
/// of cargo, and of all members: with an example the features are those of the tests, so nothing is
/// compiled twice.
///
/// # Errors
/// When it fails; its own messages have been shown by then.
pub(crate) fn printed(program: Option<&str>, args: &[&str]) -> Result<String> {
    let select = program.map(|name| ["--bin", name]);
    let build = lab::run::cargo()
        .args([
            "build",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ])
        .args(["--workspace", "--example", EXAMPLE])
        .args(select.iter().flatten())
        .current_dir(root()?)
        .stderr(Stdio::inherit())
        .output()
        .context("could not start cargo")?;
    if !build.status.success() {
        bail!("cargo cannot build it; its message is above");
    }
    let messages = String::from_utf8_lossy(&build.stdout).into_owned();
    let name = program.unwrap_or(EXAMPLE);
    let mut built = messages.lines().filter_map(lab::run::built);
    let built = built.find(|path| path.ends_with(name));
    let output = Command::new(built.with_context(|| format!("cargo built no {name}"))?)
        .args(args)
        .current_dir(root()?)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("could not start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed; its message is above");
    }
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no UTF-8"))
}

fn left_overs(root: &Path, files: &[File], folders: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        for entry in entries {
            let name = entry
                .with_context(|| format!("could not list {folder}"))?
                .file_name();
            let path = Path::new(folder).join(name);
            let yaml = path
                .extension()
                .is_some_and(|extension| extension == "yaml");
            if yaml && files.iter().all(|file| file.path != path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Names the first line that differs.
fn difference(path: &Path, present: &str, wanted: &str) -> String {
    let path = path.display();
    if present.is_empty() {
        return format!("{path} is missing");
    }
    let (mut left, mut right) = (present.lines(), wanted.lines());
    for number in 1.. {
        let (present, wanted) = (left.next(), right.next());
        if present != wanted || present.is_none() {
            let show = |line: Option<&str>| line.unwrap_or("(end of file)").to_owned();
            return format!(
                "{path}:{number} is not up to date\n  committed: {}\n  wanted:    {}",
                show(present),
                show(wanted)
            );
        }
    }
    unreachable!("invariant: a file has an end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        let text = difference(Path::new("a.yaml"), "a\nb\nc\n", "a\nB\nc\n");
        assert_eq!(
            text,
            "a.yaml:2 is not up to date\n  committed: b\n  wanted:    B"
        );
        let text = difference(Path::new("a.yaml"), "a\n", "a\nb\n");
        assert!(
            text.contains(":2 ") && text.contains("(end of file)"),
            "{text}"
        );
        assert_eq!(
            difference(Path::new("a.yaml"), "", "a\n"),
            "a.yaml is missing"
        );
    }

    #[test]
    fn a_file_that_is_not_generated_any_more_is_found() {
        let kept = File {
            path: "deploy/examples/demo.yaml".into(),
            text: String::new(),
        };
        let found = left_overs(
            &root().unwrap(),
            &[kept],
            &["deploy/examples", "no/such/folder"],
        )
        .unwrap();
        assert!(
            found.contains(&PathBuf::from("deploy/examples/ha.yaml")),
            "{found:?}"
        );
        assert!(
            !found.contains(&PathBuf::from("deploy/examples/demo.yaml")),
            "{found:?}"
        );
    }
}
