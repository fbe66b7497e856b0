// Call every operation with a client that openapi-generator generated for Go.
// Print what arrived as one JSON object. The address of the service is the one in the document.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"

	"example/verifyd"
)

const (
	day       = "2026-12-31"
	unusedDay = "2020-12-31"
	until     = "2099-12-31"
)

var (
	all    = context.Background()
	plates = []string{"AB12CDE", "lp63 sed", "ZZ99ZZZ", "?"}
)

func clientWith(key string) *verifyd.APIClient {
	configuration := verifyd.NewConfiguration()
	configuration.AddDefaultHeader("X-API-Key", key)
	return verifyd.NewAPIClient(configuration)
}

// Returns an answer that must have come; an unexpected error ends the program.
func came[T any](value T, _ *http.Response, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Returns the problem of a request that must have been refused.
func refused[T any](_ T, answer *http.Response, err error) []any {
	return refusal(answer, err)
}

func refusal(answer *http.Response, err error) []any {
	var failed *verifyd.GenericOpenAPIError
	if !errors.As(err, &failed) {
		panic(err)
	}
	problem := failed.Model().(verifyd.Problem)
	if int(problem.Status) != answer.StatusCode {
		panic("the status differs")
	}
	return []any{problem.Status, problem.Code}
}

func callDomains(client *verifyd.APIClient, name string) map[string]any {
	api := client.DomainsAPI
	create := api.CreateDomain(all).DomainRequest(*verifyd.NewDomainRequest(name))
	created := came(create.Execute())
	page := came(api.ListDomains(all).Limit(1).Status(verifyd.ACTIVE).Execute())
	rest := came(api.ListDomains(all).After(page.GetNext()).Execute())
	names := []string{}
	for _, domain := range append(page.Domains, rest.Domains...) {
		names = append(names, domain.Name)
	}
	found := came(api.GetDomain(all, name).Execute())
	duplicate := refused(create.Execute())
	deleted, err := api.DeleteDomain(all, name).Execute()
	if err != nil {
		panic(err)
	}
	return map[string]any{
		"created":   []any{created.Name, created.Status, created.CreatedAt.Year()},
		"domains":   names,
		"domain":    found.Id == created.Id,
		"duplicate": duplicate,
		"deleted":   deleted.StatusCode,
		"gone":      refusal(api.DeleteDomain(all, name).Execute()),
		"missing":   refused(api.GetDomain(all, "missing.example.com").Execute()),
	}
}

func callVehicles(client *verifyd.APIClient) map[string]any {
	api := client.VehiclesAPI
	insured := came(api.CheckVehicleInsurance(all, "AB12CDE").Execute())
	policy := insured.Policy.Get()
	onDay := came(api.CheckVehicleInsurance(all, "AB12CDE").AsOf(day).Execute())
	explained := came(api.CheckCompliance(all, "SO15RNN").Explain(true).Execute())
	bulk := came(api.CheckVehicles(all).BulkRequest(*verifyd.NewBulkRequest(plates)).Execute())
	items := []any{}
	for _, item := range bulk.Results {
		last := item.GetCode()
		if policy := item.Policy.Get(); policy != nil {
			last = policy.Number
		}
		items = append(items, []any{item.Registration, item.Insured, last})
	}
	return map[string]any{
		"insured":    []any{insured.Insured, policy.Number, policy.ValidFrom},
		"day":        onDay.GetAsOf(),
		"unknown":    refused(api.CheckVehicleInsurance(all, "ZZ99ZZZ").Execute()),
		"malformed":  refused(api.CheckCompliance(all, "ABCDEFGHIJKLM").AsOf(day).Execute()),
		"compliance": []any{explained.Compliant, explained.Checks.RoadTaxPaid, explained.Reasons.RoadTaxPaid},
		"bulk":       items,
		"counts":     []any{bulk.Processed, bulk.Successful, bulk.Failed},
	}
}

func callNewOnes(client *verifyd.APIClient) map[string]any {
	one := verifyd.NewBulkRequest(plates[:1])
	one.SetAsOf(day)
	one.SetDetails(true)
	detailed := came(client.VehiclesAPI.CheckVehicles(all).BulkRequest(*one).Execute())
	many := verifyd.NewComplianceBulkRequest(plates)
	many.SetExplain(true)
	checked := came(client.VehiclesAPI.CheckVehiclesCompliance(all).ComplianceBulkRequest(*many).Execute())
	items := []any{}
	for _, item := range checked.Results {
		var last any = item.GetCode()
		if item.Checks != nil {
			last = item.Checks.MotValid
		}
		items = append(items, []any{item.Registration, item.Compliant, last})
	}
	account := came(client.AccountAPI.GetAccount(all).Execute())
	usage := came(client.AccountAPI.GetUsage(all).From(unusedDay).To(unusedDay).Execute())
	return map[string]any{
		"detailed":        detailed.Results[0].Vehicle.GetMake(),
		"bulk_compliance": items,
		"account":         []any{account.Name, account.Plan.BulkMax, account.Key.GetLabel(), account.Key.ExpiresAt.Get()},
		"usage":           []any{usage.FirstDay, usage.Usage},
	}
}

func callWatches(client *verifyd.APIClient) map[string]any {
	api := client.WatchesAPI
	wanted := verifyd.NewWatchRequest()
	wanted.SetLeadDays([]int32{14, 28})
	wanted.SetReference("FLEET")
	wanted.SetUntil(until)
	watch := came(api.PutWatch(all, "AB12CDE").WatchRequest(*wanted).Execute())
	found := came(api.GetWatch(all, "ab12 cde").Execute())
	edit := verifyd.NewBulkWatchRequest()
	edit.SetAdd([]verifyd.AddedWatch{*verifyd.NewAddedWatch("so15 rnn"), *verifyd.NewAddedWatch("?")})
	edit.SetRemove([]string{"LP63SED"})
	changed := []any{}
	for _, item := range came(api.ChangeWatches(all).BulkWatchRequest(*edit).Execute()).Results {
		said := item.Status
		if item.HasCode() {
			said = item.GetCode()
		}
		changed = append(changed, []any{item.Registration, said})
	}
	page := came(api.ListWatches(all).Limit(1).Execute())
	rest := came(api.ListWatches(all).After(page.GetNext()).Execute())
	names := []string{}
	for _, each := range append(page.Watches, rest.Watches...) {
		names = append(names, each.Registration)
	}
	events := came(api.ListEvents(all).Limit(1).Execute())
	oldEvents := refused(api.ListEvents(all).After("00000000-1").Execute())
	unwatched := []int{}
	for _, plate := range []string{"AB12CDE", "SO15RNN"} {
		deleted, err := api.DeleteWatch(all, plate).Execute()
		if err != nil {
			panic(err)
		}
		unwatched = append(unwatched, deleted.StatusCode)
	}
	return map[string]any{
		"watch":      []any{watch.Registration, watch.LeadDays, watch.GetUntil(), watch.Known, watch.Checks.Get().Mot.Valid},
		"reference":  found.GetReference(),
		"changed":    changed,
		"watches":    names,
		"events":     []any{events.HasMore, events.GetNext() != ""},
		"old_events": oldEvents,
		"unwatched":  unwatched,
		"no_watch":   refused(api.GetWatch(all, "AB12CDE").Execute()),
	}
}

func callOperations() map[string]any {
	api := verifyd.NewAPIClient(verifyd.NewConfiguration()).OperationsAPI
	pages := []bool{}
	for _, page := range []string{
		came(api.GetDocumentationPage(all).Execute()),
		came(api.GetErrorsPage(all).Execute()),
		came(api.GetTryPage(all).Execute()),
	} {
		pages = append(pages, strings.Contains(page, "<!DOCTYPE html>"))
	}
	return map[string]any{
		"health":   came(api.GetHealth(all).Execute()).Status,
		"ready":    came(api.GetReadiness(all).Execute()).Status,
		"document": came(api.GetOpenApiDocument(all).Execute()).Openapi,
		"metrics":  strings.Contains(came(api.GetMetrics(all).Execute()), "verifyd_"),
		"start":    came(api.GetStartPage(all).Execute()).Name,
		"pages":    pages,
	}
}

func callWithOtherKeys() map[string]any {
	hurried := clientWith(os.Getenv("HURRIED_KEY")).DomainsAPI
	came(hurried.ListDomains(all).Execute())
	_, answer, err := hurried.ListDomains(all).Execute()
	limited := refusal(answer, err)
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	return map[string]any{
		"stranger": refused(clientWith("nobody").DomainsAPI.ListDomains(all).Execute()),
		"limited":  limited,
		"waits":    seconds > 0,
	}
}

func main() {
	client := clientWith(os.Getenv("KEY"))
	said := map[string]any{}
	for _, part := range []map[string]any{
		callDomains(client, os.Getenv("DOMAIN")),
		callVehicles(client),
		callNewOnes(client),
		callWatches(client),
		callOperations(),
		callWithOtherKeys(),
	} {
		for name, value := range part {
			said[name] = value
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		panic(err)
	}
}
