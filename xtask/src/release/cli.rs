//! The archive of the command line: the program, its completions and its manual pages, which it prints itself.
//!
//! Invariant: what is printed does not depend on whose terminal it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kit_oci::image::File;

/// Shells, and what each calls a file of completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "covey.bash"),
    ("fish", "covey.fish"),
    ("zsh", "_covey"),
];

/// Completions, manual pages and the licence, for the top of an archive.
///
/// # Errors
/// The program does not print them.
pub(super) fn files(root: &Path, program: &Path) -> Result<Vec<File>> {
    let run = |args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env_clear();
        lab::run::output(&mut command)
    };
    let mut files = Vec::new();
    for (shell, name) in SHELLS {
        let text = run(&["completion", shell])?;
        ensure!(
            !text.is_empty(),
            "`covey completion {shell}` printed nothing"
        );
        files.push(File::text(format!("/completions/{name}"), &text));
    }
    let folder = tempfile::tempdir()?;
    let pages = folder.path().join("man1");
    run(&[
        "man",
        "--dir",
        pages.to_str().context("a path that is no UTF-8")?,
    ])?;
    let mut count = 0;
    for page in fs::read_dir(&pages).context("`covey man` wrote nothing")? {
        let page = page?;
        let name = page.file_name().to_string_lossy().into_owned();
        let path = format!("/man/man1/{name}");
        files.push(File::bytes(path, fs::read(page.path())?));
        count += 1;
    }
    ensure!(count > 0, "`covey man` wrote nothing");
    files.push(File::bytes("/LICENSE", fs::read(root.join("LICENSE"))?));
    Ok(files)
}

/// The files of the archive, all below a folder of its name. kubectl finds the program, and what completes it, by
/// their names.
pub(super) fn archived(name: &str, program: &Path, files: &[File]) -> Vec<File> {
    let mut all = vec![
        File::program(format!("/{name}/covey"), program),
        File::link(format!("/{name}/kubectl-covey"), "covey"),
        File::link(format!("/{name}/kubectl_complete-covey"), "covey"),
    ];
    all.extend(files.iter().cloned().map(|file| File {
        path: format!("/{name}{}", file.path),
        ..file
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_below_one_folder() {
        let files = [File::text("/LICENSE", "text")];
        let all = archived("covey-1.0.0-linux-amd64", Path::new("/p"), &files);
        let paths: Vec<_> = all.iter().map(|file| file.path.as_str()).collect();
        let top = "/covey-1.0.0-linux-amd64";
        assert_eq!(
            paths,
            [
                format!("{top}/covey"),
                format!("{top}/kubectl-covey"),
                format!("{top}/kubectl_complete-covey"),
                format!("{top}/LICENSE")
            ]
        );
    }
}
