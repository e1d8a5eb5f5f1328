# Two images from one file, both installed from the locks with hashes; nothing is resolved while building.
#
#   docker build -t breakeven .                       the router: the last stage
#   docker build -t breakeven-sim --target sim .      the suite: simulated engines, load generator, demo
#
# The lint and the tests in tests/house/test_container.py are all that has seen this file: see deploy/README.md.

# The Python version that CI tests. Pin it to a digest where builds must be reproducible to the byte.
FROM python:3.11-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src

# The locks come first: a change of the code leaves these layers, the slow ones, as they are.
# hatchling, which builds the wheel, is in the development lock only; that environment is also the suite's.
COPY requirements.lock requirements-dev.lock ./
RUN python -m venv /opt/breakeven \
 && /opt/breakeven/bin/pip install --require-hashes --requirement requirements.lock
RUN python -m venv /opt/suite \
 && /opt/suite/bin/pip install --require-hashes --requirement requirements-dev.lock

COPY pyproject.toml README.md LICENSE ./
COPY policies policies
COPY router router
COPY bench bench
RUN /opt/suite/bin/hatchling build --target wheel --directory /dist \
 && /opt/breakeven/bin/pip install --no-deps --no-index /dist/*.whl \
 && /opt/suite/bin/pip install --no-deps --no-index /dist/*.whl

FROM python:3.11-slim-bookworm AS runtime
# Compiled modules were written by pip above; at run time nothing is written, so the root may be read-only.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /
# A number, since Kubernetes' runAsNonRoot cannot judge a name. It owns no file and has no home.
USER 10001:10001

FROM runtime AS sim
COPY --from=build /opt/suite /opt/suite
ENV PATH=/opt/suite/bin:$PATH
EXPOSE 8000
ENTRYPOINT ["breakeven-bench"]
CMD ["engine", "--help"]

FROM runtime AS router
COPY --from=build /opt/breakeven /opt/breakeven
ENV PATH=/opt/breakeven/bin:$PATH
# 8080 serves the OpenAI API; 8081 is the admin port, on loopback unless BREAKEVEN_ADMIN_HOST says otherwise.
EXPOSE 8080 8081
# Liveness only: whether engines are ready is /ready's answer, and no reason to restart a router.
# http.client, because urllib would send this through a proxy named in the environment.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 \
  CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('BREAKEVEN_PORT', '8080')), timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["breakeven"]
CMD ["serve"]
