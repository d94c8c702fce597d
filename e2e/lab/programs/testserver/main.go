// What the suites run in pods of tenant clusters: one small server that is what its callers expect.
//
// Port 8080, plain: every path answers with the name of the pod, /you with the caller's address; over
// UDP, a datagram comes back behind the name of the pod. Port 8443, TLS, with a certificate
// of its own for the names given as arguments, printed to standard output as PEM: an admission
// webhook (/validate) and an aggregated API (/apis/testing.covey.dev/v1). The latter answers only
// who proves by a certificate of the front proxy's authority (file REQUESTHEADER_CA) that it may
// name users, as every aggregated API has to.
//
// As "guest-agent NUMBER LATER ADDRESS…" it is none of this, but the agent of a hostile guest.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const (
	group   = "testing.covey.dev"
	version = "v1"
	// An object with this label is refused.
	forbidden = "testing.covey.dev/forbidden"
)

type object = map[string]any

func main() {
	if len(os.Args) > 3 && os.Args[1] == "guest-agent" {
		more, err := strconv.Atoi(os.Args[2])
		check(err)
		later, err := strconv.Atoi(os.Args[3])
		check(err)
		agent(more, later, os.Args[4:])
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	plain := http.NewServeMux()
	plain.HandleFunc("/", hello)
	plain.HandleFunc("/you", you)
	go echo()
	go serve(&http.Server{Addr: ":8080", Handler: plain})

	secure := http.NewServeMux()
	secure.HandleFunc("/", hello)
	secure.HandleFunc("/validate", validate)
	secure.HandleFunc("/apis/"+group+"/"+version, proven(resources))
	secure.HandleFunc("/apis/"+group+"/"+version+"/greetings", proven(greetings))
	// The caller's certificate is asked for and not demanded: health checks and webhooks have none.
	config := &tls.Config{Certificates: []tls.Certificate{certificate(os.Args[1:])}, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert}
	go serve(&http.Server{Addr: ":8443", Handler: secure, TLSConfig: config})
	<-stop
	// Who was sent here just now still gets an answer.
	time.Sleep(2 * time.Second)
}

func serve(server *http.Server) {
	server.ReadHeaderTimeout = 10 * time.Second
	if server.TLSConfig != nil {
		log.Fatal(server.ListenAndServeTLS("", ""))
	}
	log.Fatal(server.ListenAndServe())
}

func hello(w http.ResponseWriter, r *http.Request) {
	name, _ := os.Hostname()
	fmt.Fprintf(w, "hello from %s\n", name)
	log.Printf("%s %s %s", r.RemoteAddr, r.Method, r.URL.Path)
}

// you says who asks, as far as this pod can see.
func you(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	check(err)
	fmt.Fprintln(w, host)
}

// echo sends datagrams back.
func echo() {
	name, _ := os.Hostname()
	socket, err := net.ListenPacket("udp", ":8080")
	check(err)
	datagram := make([]byte, 1500)
	for {
		size, from, err := socket.ReadFrom(datagram)
		if err != nil {
			log.Print(err)
			continue
		}
		if _, err := socket.WriteTo([]byte(name+": "+string(datagram[:size])), from); err != nil {
			log.Print(err)
		}
	}
}

// validate answers an AdmissionReview: what carries the label is refused, all else is let in.
func validate(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Request struct {
			UID    string
			Object struct {
				Metadata struct{ Labels map[string]string }
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := object{"uid": review.Request.UID, "allowed": true}
	if _, found := review.Request.Object.Metadata.Labels[forbidden]; found {
		answer["allowed"] = false
		answer["status"] = object{"message": "the label " + forbidden + " is not allowed"}
	}
	write(w, object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
}

// proven lets in who shows a certificate of the front proxy's authority.
func proven(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		roots := x509.NewCertPool()
		text, err := os.ReadFile(os.Getenv("REQUESTHEADER_CA"))
		if err != nil || !roots.AppendCertsFromPEM(text) {
			http.Error(w, "REQUESTHEADER_CA names no certificate", http.StatusInternalServerError)
			return
		}
		options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "no client certificate", http.StatusUnauthorized)
			return
		}
		if _, err := r.TLS.PeerCertificates[0].Verify(options); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

func resources(w http.ResponseWriter, _ *http.Request) {
	write(w, object{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": group + "/" + version,
		"resources": []object{{"name": "greetings", "singularName": "greeting", "namespaced": false,
			"kind": "Greeting", "verbs": []string{"list"}}}})
}

// greetings lists one object, which says whom the API server says that it asks for.
func greetings(w http.ResponseWriter, r *http.Request) {
	write(w, object{"apiVersion": group + "/" + version, "kind": "GreetingList", "metadata": object{},
		"items": []object{{"apiVersion": group + "/" + version, "kind": "Greeting",
			"metadata": object{"name": "hello", "creationTimestamp": "2026-01-01T00:00:00Z"},
			"to":       r.Header.Get("X-Remote-User"),
			"proxy":    r.TLS.PeerCertificates[0].Subject.CommonName}}})
}

func write(w http.ResponseWriter, value object) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}

// certificate makes a certificate that is its own authority and prints it.
func certificate(names []string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "testserver"}, DNSNames: names,
		NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	check(pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
