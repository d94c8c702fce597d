//! Manager: the parts of `csi-proxy controller`, started without flags, signals and admin port.
//!
//! Invariant: dropping a future that it gave stops that part; nothing goes on in tasks of its own but
//! writes that are under way.

use std::sync::Arc;

use anyhow::Context as _;
use futures::future::join;
use proto::csi::controller_server::ControllerServer;
use proto::csi::identity_server::IdentityServer;
use tokio::net::UnixListener;
use tonic::transport::Server;

use crate::cache::watches;
use crate::context::Context;
use crate::controllers::attach::reconcile::Reconciler;
use crate::server::{controller, identity};
use crate::socket;

/// The parts, which share a context.
#[derive(Clone)]
pub struct Manager {
    ctx: Arc<Context>,
}

impl Manager {
    /// One with this context.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// Runs watches and controllers. Never ends.
    pub async fn run(self) {
        let Context {
            cache,
            kube,
            settings,
            ..
        } = &*self.ctx;
        let watches = watches::run(cache, &kube.usual, settings);
        join(watches, Reconciler::new(Arc::clone(&self.ctx)).run()).await;
    }

    /// Serves Identity and Controller on a Unix socket until `stop`.
    ///
    /// # Errors
    /// When the socket is lost.
    pub async fn serve(
        self,
        listener: UnixListener,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let cache = Arc::clone(&self.ctx.cache);
        let topology = self.ctx.settings.offer.has_zones();
        let served = Server::builder()
            .add_service(IdentityServer::new(identity::Service::new(cache, topology)))
            .add_service(ControllerServer::new(controller::Service::new(self.ctx)))
            .serve_with_incoming_shutdown(socket::connections(listener), stop);
        served.await.context("serve the socket")
    }
}
