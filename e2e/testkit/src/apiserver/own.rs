//! The processes of a management API that was started here: stopped, started again, paused.
//!
//! Invariant: a server that is lent is nobody's to stop; whoever tries is told so.

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use tokio::sync::Mutex;

use super::start::{retry_ports, wait_http};
use super::{ManagementApi, Options, flags};
use crate::ports;
use crate::process::{Process, Workdir};
use crate::programs::Programs;

/// Processes, and what they were started from.
pub(super) struct Own {
    // Order matters: processes end before their folder goes.
    servers: Mutex<Servers>,
    programs: Programs,
    options: Options,
    dir: Workdir,
}

struct Servers {
    controller_manager: Option<Process>,
    apiserver: Option<Process>,
    etcd: Process,
}

impl Own {
    pub(super) fn new(
        programs: Programs,
        options: Options,
        dir: Workdir,
        etcd: Process,
        apiserver: Process,
    ) -> Self {
        let servers = Servers {
            controller_manager: None,
            apiserver: Some(apiserver),
            etcd,
        };
        Self {
            servers: Mutex::new(servers),
            programs,
            options,
            dir,
        }
    }

    pub(super) fn dir(&self) -> &Workdir {
        &self.dir
    }
}

impl ManagementApi {
    pub(super) fn own(&self) -> Result<&Own> {
        let own = self.own.as_ref();
        own.context("this server is lent; whoever stops or changes one needs ManagementApi::start")
    }

    /// Starts the kube-controller-manager with just these controllers (for example
    /// [`super::DELETION_CONTROLLERS`]; `deployment-controller`, `statefulset-controller`). One that runs
    /// already is replaced.
    pub async fn with_controller_manager(&self, controllers: &[&str]) -> Result<()> {
        let own = self.own()?;
        let mut servers = own.servers.lock().await;
        servers.controller_manager = None;
        let process = retry_ports(|| async {
            let port = ports::unused()?;
            let args = flags::controller_manager(own.dir.path(), port, controllers);
            let log = own.dir.path().join("kube-controller-manager.log");
            let program = &own.programs.kube_controller_manager;
            let mut process = Process::spawn("kube-controller-manager", program, &args, &log)?;
            let url = format!("https://127.0.0.1:{port}/healthz");
            wait_http(&mut process, &url, &self.ca()).await?;
            Ok(process)
        });
        servers.controller_manager = Some(process.await?);
        Ok(())
    }

    /// Ends the kube-apiserver at once, as a crash would; etcd keeps running.
    pub async fn stop_apiserver(&self) -> Result<()> {
        self.own()?.servers.lock().await.apiserver = None;
        Ok(())
    }

    /// Starts the kube-apiserver again on the same port and waits until it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        let own = self.own()?;
        let mut servers = own.servers.lock().await;
        servers.apiserver = None;
        let dir = own.dir.path();
        let flags = flags::apiserver(dir, self.etcd.url(), self.port, &own.options);
        let log = dir.join("kube-apiserver.log");
        let program = &own.programs.kube_apiserver;
        let process = Process::spawn("kube-apiserver", program, &flags, &log)?;
        let process = servers.apiserver.insert(process);
        wait_http(process, &format!("{}/readyz", self.url()), &self.ca()).await
    }

    /// Stops the kube-apiserver in its tracks (SIGSTOP): connections hang and do not break.
    pub async fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP).await
    }

    /// Undoes [`Self::pause`].
    pub async fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT).await
    }

    async fn signal(&self, signal: Signal) -> Result<()> {
        match &mut self.own()?.servers.lock().await.apiserver {
            Some(process) => process.signal(signal),
            None => bail!("the kube-apiserver is stopped; call start_apiserver first"),
        }
    }

    /// Pids of the running children of this process; none where the server is lent.
    pub async fn pids(&self) -> Vec<u32> {
        let Some(own) = &self.own else {
            return Vec::new();
        };
        let servers = own.servers.lock().await;
        let others = [&servers.apiserver, &servers.controller_manager];
        let others = others.into_iter().flatten().map(Process::pid);
        [servers.etcd.pid()].into_iter().chain(others).collect()
    }
}
