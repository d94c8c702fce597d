//! Tries whether a tenant cluster's published address lets the operator in, while all nodes that come by it are silent, and
//! at no other time.
//!
//! Invariant: one try at a time per tenant cluster; each ends within [`placement::endpoint::PROBE_TAKES`], sends nothing
//! but a handshake, and shows no certificate of ours. What follows is decided in `placement::endpoint`.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use api::tenant_cluster::EndpointStatus;
use kit::panics;
use placement::endpoint::{KNOWN_FOR, PROBE_TAKES, Probe};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tenant_cp::network::metadata;
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::tenant_session::session::Dial;

/// Most characters of what went wrong that are kept: it may be the other side's.
const WORDS: usize = 200;

/// Of all tenant clusters, what came of the last try.
#[derive(Debug, Default)]
pub struct EndpointProbes(Arc<Mutex<HashMap<String, Known>>>);

/// What a plan may know of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Word {
    /// What came of the last try.
    pub probe: Probe,
    /// Where it was tried, and what went wrong if anything did; empty where nobody tried.
    pub words: String,
}

#[derive(Debug)]
struct Known {
    tried: Instant,
    runs: bool,
    word: Option<(Instant, Word)>,
}

/// Where to try.
pub struct Target {
    /// The tenant namespace, for [`Dial`].
    pub namespace: String,
    /// The published address.
    pub endpoint: EndpointStatus,
    /// The certificates of the authority to believe, PEM.
    pub authority: String,
    /// Where that address is reached.
    pub dial: Dial,
}

impl EndpointProbes {
    /// What came of the last try, while that is no longer ago than it is good for.
    #[must_use]
    pub fn word(&self, uid: &str) -> Word {
        let all = self.lock();
        let word = all.get(uid).and_then(|known| known.word.as_ref());
        let word = word.filter(|(at, _)| at.elapsed() <= KNOWN_FOR);
        word.map(|(_, word)| word.clone()).unwrap_or_default()
    }

    /// How long ago the last try began.
    #[must_use]
    pub fn tried(&self, uid: &str) -> Option<Duration> {
        let tried = self.lock().get(uid).map(|known| known.tried);
        tried.map(|at| at.elapsed())
    }

    /// Tries, unless that is under way.
    pub fn begin(&self, uid: &str, target: Target) {
        // It goes on without whoever began it.
        drop(self.start(uid, target));
    }

    fn start(&self, uid: &str, target: Target) -> Option<JoinHandle<()>> {
        let mut all = self.lock();
        let before = all.get(uid);
        if before.is_some_and(|known| known.runs) {
            return None;
        }
        let known = Known {
            tried: Instant::now(),
            runs: true,
            word: before.and_then(|known| known.word.clone()),
        };
        all.insert(uid.to_owned(), known);
        drop(all);
        let (shared, uid) = (Arc::clone(&self.0), uid.to_owned());
        Some(tokio::spawn(async move {
            // Of one that panicked nothing is known.
            let word = panics::contained(Box::pin(word(&target))).await;
            let word = word.unwrap_or_default();
            let mut all = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // One that was forgotten meanwhile stays so.
            if let Some(known) = all.get_mut(&uid) {
                known.runs = false;
                known.word = Some((Instant::now(), word));
            }
        }))
    }

    /// Nodes are heard again, or the tenant cluster is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn word(target: &Target) -> Word {
    let EndpointStatus { host, port } = &target.endpoint;
    let at = format!("{host}:{port}");
    let tried = tokio::time::timeout(PROBE_TAKES, handshake(target)).await;
    let tried = tried.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut)));
    match tried {
        Ok(()) => Word {
            probe: Probe::Answers,
            words: at,
        },
        Err(error) => {
            let error = error.to_string();
            let plain = error.chars().filter(|c| !c.is_control());
            let cut: String = plain.take(WORDS).collect();
            Word {
                probe: Probe::Fails,
                words: format!("{at}: {cut}"),
            }
        }
    }
}

/// Shakes hands, and lets go.
async fn handshake(target: &Target) -> io::Result<()> {
    let EndpointStatus { host, port } = &target.endpoint;
    let port = u16::try_from(*port).map_err(io::Error::other)?;
    let found = lookup_host((host.as_str(), port)).await?.next();
    let found = found.ok_or_else(|| io::Error::other("it has no address"))?;
    if metadata::is_nobodys(found.ip()) {
        return Err(io::Error::other(format!("{} is nobody's API", found.ip())));
    }
    let address: SocketAddr = (target.dial)(&target.namespace, found);
    let connector = TlsConnector::from(Arc::new(config(&target.authority)?));
    let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
    let stream = TcpStream::connect(address).await?;
    connector.connect(name, stream).await?;
    Ok(())
}

fn config(authority: &str) -> io::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        let root = root.map_err(io::Error::other)?;
        roots.add(root).map_err(io::Error::other)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(io::Error::other)?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use jiff::Timestamp;
    use pki::{KeyPair, Signer, Want};
    use rustls::ServerConfig;
    use rustls_pki_types::PrivateKeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// An address of the documentation's, which [`Dial`] brings to the test's own server.
    const HOST: &str = "192.0.2.7";

    fn authority(name: &str) -> KeyPair {
        pki::issue(&Want::authority("ca", name, 24), None, Timestamp::now()).unwrap()
    }

    fn serving(by: &KeyPair, address: &str) -> KeyPair {
        let want = Want {
            signer: Signer::By("ca".to_owned()),
            server: true,
            dns_names: Vec::new(),
            addresses: vec![address.parse::<IpAddr>().unwrap()],
            ..Want::authority("apiserver", "kube-apiserver", 24)
        };
        pki::issue(&want, Some(by), Timestamp::now()).unwrap()
    }

    /// A server with this certificate; none: one that says nothing.
    async fn server(pair: Option<&KeyPair>) -> SocketAddr {
        let config = pair.map(|pair| {
            let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
            let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(pair.key.reveal().as_bytes()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap();
            let config = config.with_no_client_auth().with_single_cert(chain, key);
            Arc::new(config.unwrap())
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut silent = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                match &config {
                    Some(config) => {
                        drop(TlsAcceptor::from(Arc::clone(config)).accept(stream).await);
                    }
                    None => silent.push(stream),
                }
            }
        });
        address
    }

    fn target(host: &str, believes: &KeyPair, at: SocketAddr) -> Target {
        Target {
            namespace: "covey-demo".to_owned(),
            endpoint: EndpointStatus {
                host: host.to_owned(),
                port: 6443,
            },
            authority: believes.certificate.clone(),
            dial: Arc::new(move |_: &str, _| at),
        }
    }

    #[tokio::test]
    async fn only_its_own_certificate_is_an_answer() {
        let (ours, others) = (authority("kubernetes"), authority("somebody"));
        let right = server(Some(&serving(&ours, HOST))).await;
        let answer = word(&target(HOST, &ours, right)).await;
        assert_eq!(
            (answer.probe, answer.words.as_str()),
            (Probe::Answers, "192.0.2.7:6443")
        );
        let elsewhere = server(Some(&serving(&others, HOST))).await;
        let another = server(Some(&serving(&ours, "192.0.2.8"))).await;
        for at in [elsewhere, another] {
            let answer = word(&target(HOST, &ours, at)).await;
            assert_eq!(answer.probe, Probe::Fails);
            assert!(answer.words.contains("certificate"), "{}", answer.words);
        }
    }

    #[tokio::test]
    async fn who_refuses_or_is_nobody_fails_with_the_reason() {
        let ours = authority("kubernetes");
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        let answer = word(&target(HOST, &ours, closed)).await;
        assert_eq!(answer.probe, Probe::Fails);
        assert!(
            answer.words.to_lowercase().contains("refused"),
            "{}",
            answer.words
        );
        // Whoever names it wants to know what is there.
        let right = server(Some(&serving(&ours, "169.254.169.254"))).await;
        let answer = word(&target("169.254.169.254", &ours, right)).await;
        assert!(answer.words.contains("nobody's API"), "{}", answer.words);
        assert_eq!(answer.probe, Probe::Fails);
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_is_given_up() {
        let ours = authority("kubernetes");
        let silent = server(None).await;
        let answer = word(&target(HOST, &ours, silent)).await;
        assert_eq!(answer.probe, Probe::Fails);
    }

    #[tokio::test]
    async fn one_at_a_time_is_tried_and_one_that_was_forgotten_stays_so() {
        let ours = authority("kubernetes");
        let right = server(Some(&serving(&ours, HOST))).await;
        let probes = EndpointProbes::default();
        assert_eq!(
            (probes.word("a"), probes.tried("a")),
            (Word::default(), None)
        );
        let begin = |uid: &str| probes.start(uid, target(HOST, &ours, right));
        let (a, b) = (begin("a").unwrap(), begin("b").unwrap());
        assert!(begin("a").is_none(), "it is under way");
        probes.forget("b");
        a.await.unwrap();
        b.await.unwrap();
        assert_eq!(probes.word("a").probe, Probe::Answers);
        assert_eq!(
            (probes.word("b"), probes.tried("b")),
            (Word::default(), None)
        );
    }
}
