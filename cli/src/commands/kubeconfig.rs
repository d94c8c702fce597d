//! `covey kubeconfig`: the administrator's kubeconfig of a tenant cluster.
//!
//! Invariant: it is a credential: it goes where it was asked to go, never onto a terminal by accident, never over a
//! file that is there, and into files that only their owner reads.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use api::names::kubeconfig_secret;
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;

use super::describe::{find, readiness};
use crate::args::{Global, Kubeconfig};
use crate::connect::connect;
use crate::exit::{Exit, Failure};
use crate::output::{result, say};

/// The key of the Secret, as Cluster API, Flux and Argo CD expect it.
const KEY: &str = "value";

pub(super) async fn run(global: &Global, args: &Kubeconfig) -> Result<Exit, Failure> {
    // Before anything is asked: the Secret is not even read.
    if args.file.is_none() && !args.show && io::stdout().is_terminal() {
        let what = "a kubeconfig is a credential, and standard output is a terminal";
        let mend = format!(
            "`--file {}.kubeconfig`, redirect it, or say `--show`",
            args.name
        );
        return Err(Failure::new(Exit::Usage, what, &mend));
    }
    let connection = connect(global).await?;
    let (client, namespace) = (&connection.client, &connection.namespace);
    let cluster = find(client, namespace, &args.name).await?;
    let status = cluster.status.as_ref();
    let named = status.and_then(|status| status.kubeconfig_secret.clone());
    let secret = named.unwrap_or_else(|| kubeconfig_secret(&args.name));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let act = format!("get the Secret {secret} in {namespace}");
    let found = secrets.get_opt(&secret).await;
    let found = found.map_err(|error| Failure::of(&act, &error))?;
    let text = found.as_ref().and_then(content);
    let Some(text) = text else {
        let what = format!(
            "{} has no kubeconfig yet: {}",
            args.name,
            readiness(&cluster)
        );
        let mend = format!(
            "`covey wait {}`, or `covey doctor {}`",
            args.name, args.name
        );
        return Err(Failure::new(Exit::NotFound, &what, &mend));
    };
    match &args.file {
        Some(file) => write(file, text)?,
        None => result(text)?,
    }
    if !global.quiet {
        say(
            "this kubeconfig is an administrator's: who has it can do anything in the tenant cluster; keep it as a secret",
        );
        if let Some(file) = &args.file {
            say(&format!(
                "go on with: kubectl --kubeconfig {} get nodes",
                file.display()
            ));
        }
    }
    Ok(Exit::Done)
}

fn content(secret: &Secret) -> Option<&str> {
    let value = secret.data.as_ref()?.get(KEY)?;
    std::str::from_utf8(&value.0).ok()
}

/// Writes a file that was not there before, mode 0600.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        let what = format!("cannot write {}: {error}", path.display());
        let mend = match error.kind() {
            io::ErrorKind::AlreadyExists => "name another `--file`, or remove that one",
            _ => "name a `--file` in a folder that you may write to",
        };
        Failure::new(Exit::Failed, &what, mend)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_file_is_the_owners_alone_and_none_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.kubeconfig");
        write(&path, "a").unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let failure = write(&path, "b").unwrap_err();
        assert!(failure.mend.contains("--file"), "{failure}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a");
    }
}
