import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.IOException;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.AccountApi;
import org.openapitools.client.api.AccountApi.APIGetUsageRequest;
import org.openapitools.client.api.DomainsApi;
import org.openapitools.client.api.DomainsApi.APICreateDomainRequest;
import org.openapitools.client.api.DomainsApi.APIDeleteDomainRequest;
import org.openapitools.client.api.DomainsApi.APIGetDomainRequest;
import org.openapitools.client.api.DomainsApi.APIListDomainsRequest;
import org.openapitools.client.api.OperationsApi;
import org.openapitools.client.api.VehiclesApi;
import org.openapitools.client.api.VehiclesApi.APICheckComplianceRequest;
import org.openapitools.client.api.VehiclesApi.APICheckVehicleInsuranceRequest;
import org.openapitools.client.api.VehiclesApi.APICheckVehiclesComplianceRequest;
import org.openapitools.client.api.VehiclesApi.APICheckVehiclesRequest;
import org.openapitools.client.api.WatchesApi;
import org.openapitools.client.api.WatchesApi.APIChangeWatchesRequest;
import org.openapitools.client.api.WatchesApi.APIDeleteWatchRequest;
import org.openapitools.client.api.WatchesApi.APIGetWatchRequest;
import org.openapitools.client.api.WatchesApi.APIListEventsRequest;
import org.openapitools.client.api.WatchesApi.APIListWatchesRequest;
import org.openapitools.client.api.WatchesApi.APIPutWatchRequest;
import org.openapitools.client.model.AddedWatch;
import org.openapitools.client.model.BulkRequest;
import org.openapitools.client.model.BulkWatchRequest;
import org.openapitools.client.model.ComplianceBulkRequest;
import org.openapitools.client.model.Domain;
import org.openapitools.client.model.DomainRequest;
import org.openapitools.client.model.DomainStatus;
import org.openapitools.client.model.OperationUsage;
import org.openapitools.client.model.Policy;
import org.openapitools.client.model.Problem;
import org.openapitools.client.model.WatchRequest;

/**
 * Calls every operation with a client that openapi-generator generated for Java, and prints what
 * arrived as one JSON object. The address of the service is the one in the document.
 */
class WithOpenapiGenerator {
  static final LocalDate DAY = LocalDate.of(2026, 12, 31);
  static final LocalDate UNUSED_DAY = LocalDate.of(2020, 12, 31);
  static final LocalDate UNTIL = LocalDate.of(2099, 12, 31);
  static final List<String> PLATES = List.of("AB12CDE", "lp63 sed", "ZZ99ZZZ", "?");

  interface Call {
    void run() throws ApiException;
  }

  static ApiClient clientWith(String key) {
    return new ApiClient().setRequestInterceptor(request -> request.header("X-API-Key", key));
  }

  static ApiException failure(Call call) {
    try {
      call.run();
    } catch (ApiException error) {
      return error;
    }
    throw new IllegalStateException("the request was not refused");
  }

  static List<Object> refused(Call call) throws JsonProcessingException {
    ApiException error = failure(call);
    String body = error.getResponseBody();
    Problem problem = ApiClient.createDefaultObjectMapper().readValue(body, Problem.class);
    if (problem.getStatus() != error.getCode()) {
      throw new IllegalStateException("the status differs");
    }
    return List.of(problem.getStatus(), problem.getCode());
  }

  /** Returns `not read` if the client takes a page for broken JSON. */
  static String notRead(Call call) {
    Throwable cause = failure(call).getCause();
    return cause instanceof JsonProcessingException ? "not read" : "failed";
  }

  static Map<String, Object> callDomains(ApiClient client, String name)
      throws ApiException, IOException {
    DomainsApi api = new DomainsApi(client);
    APICreateDomainRequest creation =
        APICreateDomainRequest.newBuilder().domainRequest(new DomainRequest().name(name)).build();
    APIDeleteDomainRequest deletion = APIDeleteDomainRequest.newBuilder().domain(name).build();
    APIGetDomainRequest missing =
        APIGetDomainRequest.newBuilder().domain("missing.example.com").build();
    Domain created = api.createDomain(creation);
    var page =
        api.listDomains(
            APIListDomainsRequest.newBuilder().limit(1).status(DomainStatus.ACTIVE).build());
    var rest = api.listDomains(APIListDomainsRequest.newBuilder().after(page.getNext()).build());
    List<String> names = new ArrayList<>();
    page.getDomains().forEach(domain -> names.add(domain.getName()));
    rest.getDomains().forEach(domain -> names.add(domain.getName()));
    Domain found = api.getDomain(APIGetDomainRequest.newBuilder().domain(name).build());
    Map<String, Object> said = new LinkedHashMap<>();
    said.put(
        "created",
        List.of(created.getName(), created.getStatus(), created.getCreatedAt().getYear()));
    said.put("domains", names);
    said.put("domain", found.getId().equals(created.getId()));
    said.put("duplicate", refused(() -> api.createDomain(creation)));
    said.put("deleted", api.deleteDomainWithHttpInfo(deletion).getStatusCode());
    said.put("gone", refused(() -> api.deleteDomain(deletion)));
    said.put("missing", refused(() -> api.getDomain(missing)));
    return said;
  }

  static APICheckVehicleInsuranceRequest insuranceOf(String registration, LocalDate day) {
    return APICheckVehicleInsuranceRequest.newBuilder()
        .registration(registration)
        .asOf(day)
        .build();
  }

  static APICheckComplianceRequest complianceOf(String registration) {
    return APICheckComplianceRequest.newBuilder().registration(registration).explain(true).build();
  }

  static Map<String, Object> callVehicles(ApiClient client) throws ApiException, IOException {
    VehiclesApi api = new VehiclesApi(client);
    var insured = api.checkVehicleInsurance(insuranceOf("AB12CDE", null));
    Policy policy = insured.getPolicy();
    var onDay = api.checkVehicleInsurance(insuranceOf("AB12CDE", DAY));
    var explained = api.checkCompliance(complianceOf("SO15RNN"));
    BulkRequest many = new BulkRequest().registrations(PLATES);
    var bulk = api.checkVehicles(APICheckVehiclesRequest.newBuilder().bulkRequest(many).build());
    List<Object> items = new ArrayList<>();
    for (var item : bulk.getResults()) {
      String last = item.getPolicy() == null ? item.getCode() : item.getPolicy().getNumber();
      items.add(List.of(item.getRegistration(), item.getInsured(), last));
    }
    Map<String, Object> said = new LinkedHashMap<>();
    said.put(
        "insured",
        List.of(insured.getInsured(), policy.getNumber(), policy.getValidFrom().toString()));
    said.put("day", onDay.getAsOf().toString());
    said.put("unknown", refused(() -> api.checkVehicleInsurance(insuranceOf("ZZ99ZZZ", null))));
    said.put("malformed", refused(() -> api.checkCompliance(complianceOf("ABCDEFGHIJKLM"))));
    said.put(
        "compliance",
        List.of(
            explained.getCompliant(),
            explained.getChecks().getRoadTaxPaid(),
            explained.getReasons().getRoadTaxPaid()));
    said.put("bulk", items);
    said.put("counts", List.of(bulk.getProcessed(), bulk.getSuccessful(), bulk.getFailed()));
    return said;
  }

  static Map<String, Object> callNewOnes(ApiClient client) throws ApiException {
    VehiclesApi vehicles = new VehiclesApi(client);
    BulkRequest one =
        new BulkRequest().registrations(PLATES.subList(0, 1)).asOf(DAY).details(true);
    var detailed =
        vehicles.checkVehicles(APICheckVehiclesRequest.newBuilder().bulkRequest(one).build());
    var many = new ComplianceBulkRequest().registrations(PLATES).explain(true);
    var checked =
        vehicles.checkVehiclesCompliance(
            APICheckVehiclesComplianceRequest.newBuilder().complianceBulkRequest(many).build());
    List<Object> items = new ArrayList<>();
    for (var item : checked.getResults()) {
      Object last = item.getChecks() == null ? item.getCode() : item.getChecks().getMotValid();
      items.add(List.of(item.getRegistration(), item.getCompliant(), last));
    }
    AccountApi accounts = new AccountApi(client);
    var account = accounts.getAccount();
    var usage =
        accounts.getUsage(APIGetUsageRequest.newBuilder().from(UNUSED_DAY).to(UNUSED_DAY).build());
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("detailed", detailed.getResults().get(0).getVehicle().getMake());
    said.put("bulk_compliance", items);
    said.put(
        "account",
        Arrays.asList(
            account.getName(),
            account.getPlan().getBulkMax(),
            account.getKey().getLabel(),
            account.getKey().getExpiresAt()));
    List<String> operations =
        usage.getUsage().stream().map(OperationUsage::getOperation).toList();
    said.put("usage", List.of(usage.getFirstDay().toString(), operations));
    return said;
  }

  static APIGetWatchRequest watchOf(String registration) {
    return APIGetWatchRequest.newBuilder().registration(registration).build();
  }

  static Map<String, Object> callWatches(ApiClient client) throws ApiException, IOException {
    WatchesApi api = new WatchesApi(client);
    WatchRequest wanted =
        new WatchRequest().leadDays(Set.of(14, 28)).reference("FLEET").until(UNTIL);
    var watch =
        api.putWatch(
            APIPutWatchRequest.newBuilder().registration("AB12CDE").watchRequest(wanted).build());
    BulkWatchRequest edit =
        new BulkWatchRequest()
            .addAddItem(new AddedWatch().registration("so15 rnn"))
            .addAddItem(new AddedWatch().registration("?"))
            .addRemoveItem("LP63SED");
    var answer =
        api.changeWatches(APIChangeWatchesRequest.newBuilder().bulkWatchRequest(edit).build());
    List<Object> changed = new ArrayList<>();
    for (var item : answer.getResults()) {
      String last = item.getCode() == null ? item.getStatus() : item.getCode();
      changed.add(List.of(item.getRegistration(), last));
    }
    var page = api.listWatches(APIListWatchesRequest.newBuilder().limit(1).build());
    var rest = api.listWatches(APIListWatchesRequest.newBuilder().after(page.getNext()).build());
    List<String> plates = new ArrayList<>();
    page.getWatches().forEach(each -> plates.add(each.getRegistration()));
    rest.getWatches().forEach(each -> plates.add(each.getRegistration()));
    var events = api.listEvents(APIListEventsRequest.newBuilder().limit(1).build());
    APIListEventsRequest old = APIListEventsRequest.newBuilder().after("00000000-1").build();
    Map<String, Object> said = new LinkedHashMap<>();
    said.put(
        "watch",
        List.of(
            watch.getRegistration(),
            watch.getLeadDays(),
            watch.getUntil().toString(),
            watch.getKnown(),
            watch.getChecks().getMot().getValid()));
    said.put("reference", api.getWatch(watchOf("ab12 cde")).getReference());
    said.put("changed", changed);
    said.put("watches", plates);
    said.put("events", List.of(events.getHasMore(), events.getNext() != null));
    said.put("old_events", refused(() -> api.listEvents(old)));
    List<Integer> statuses = new ArrayList<>();
    for (String plate : List.of("AB12CDE", "SO15RNN")) {
      APIDeleteWatchRequest deletion =
          APIDeleteWatchRequest.newBuilder().registration(plate).build();
      statuses.add(api.deleteWatchWithHttpInfo(deletion).getStatusCode());
    }
    said.put("unwatched", statuses);
    said.put("no_watch", refused(() -> api.getWatch(watchOf("AB12CDE"))));
    return said;
  }

  static Map<String, Object> callOperations() throws ApiException {
    OperationsApi api = new OperationsApi(new ApiClient());
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("health", api.getHealth().getStatus());
    said.put("ready", api.getReadiness().getStatus());
    said.put("document", api.getOpenApiDocument().getOpenapi());
    said.put("metrics", api.getMetrics().contains("verifyd_"));
    said.put("start", api.getStartPage().getName());
    said.put(
        "pages",
        List.of(
            notRead(() -> api.getDocumentationPage()),
            notRead(() -> api.getErrorsPage()),
            notRead(() -> api.getTryPage())));
    return said;
  }

  static Map<String, Object> callWithOtherKeys() throws ApiException, IOException {
    DomainsApi stranger = new DomainsApi(clientWith("nobody"));
    DomainsApi hurried = new DomainsApi(clientWith(System.getenv("HURRIED_KEY")));
    APIListDomainsRequest all = APIListDomainsRequest.newBuilder().build();
    hurried.listDomains(all);
    ApiException limited = failure(() -> hurried.listDomains(all));
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("stranger", refused(() -> stranger.listDomains(all)));
    said.put("limited", refused(() -> hurried.listDomains(all)));
    said.put(
        "waits",
        limited.getResponseHeaders().firstValueAsLong("Retry-After").orElseThrow() > 0);
    return said;
  }

  public static void main(String[] args) throws ApiException, IOException {
    ApiClient client = clientWith(System.getenv("KEY"));
    Map<String, Object> said = new LinkedHashMap<>();
    said.putAll(callDomains(client, System.getenv("DOMAIN")));
    said.putAll(callVehicles(client));
    said.putAll(callNewOnes(client));
    said.putAll(callWatches(client));
    said.putAll(callOperations());
    said.putAll(callWithOtherKeys());
    System.out.println(ApiClient.createDefaultObjectMapper().writeValueAsString(said));
  }
}
