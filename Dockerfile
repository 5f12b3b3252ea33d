FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# The newest of each dependency that pyproject.toml allows: releases are built in CI.
# hadolint ignore=DL3013
RUN pip install --no-cache-dir --prefix=/install '.[postgres,web]'

FROM python:3.13-slim
COPY --from=build /install /usr/local
RUN useradd --create-home --uid 1000 backstory && install -d -o backstory /data
USER 1000
ENV BACKSTORY_STORE=/data/history.db
VOLUME /data
EXPOSE 7357
ENTRYPOINT ["backstory"]
CMD ["web", "--host", "0.0.0.0", "--no-open"]
