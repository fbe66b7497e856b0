/**
 * A typed client of verifyd for Node 22.18 or newer. It needs only verifyd.ts.
 *
 *     import { verdict } from "./verifyd.ts";
 *     import { TypedClient } from "./verifyd_typed.ts";
 *
 *     const client = new TypedClient(); // with the key in the environment variable KEY
 *     const answer = await client.checkVehicleInsurance("AB12CDE", { asOf: "2026-12-31" });
 *     console.log(verdict(answer, "insured")); // null if no register knows it
 *
 * It is a `Client` with a method for each operation. Parameters and members have the names of the
 * documentation. What is undefined is not sent. This file is generated: do not change it, a newer
 * one replaces it.
 */

import { Client } from "./verifyd.ts";

/** A domain of the account. */
export interface Domain {
  /** Identifier of the domain. It never changes. */
  id: string;
  /** Canonical name: lower case, without a final dot, international labels in ASCII (`xn--`). */
  name: string;
  /**
   * A new domain is `active`. Only the operator of the service suspends a domain and activates it
   * again. New values may come.
   */
  status: string;
  /** UTC in whole seconds, `YYYY-MM-DDTHH:MM:SSZ`. */
  created_at: string;
}

/** Domains of the account, by name. */
export interface DomainList {
  domains: Array<Domain>;
  /** The `after` of the next page; null on the last page. Absent if the request has no `limit`. */
  next?: string | null;
}

/** A domain to create. Unknown members are refused. */
export interface DomainRequest {
  /**
   * A domain name in any case, with or without a final dot. It has two labels or more, and at most
   * 253 characters. Labels have 1 to 63 letters, digits and inner hyphens; the last one is not a
   * number. International names can be sent in Unicode (UTS 46), with the characters that IDNA 2008
   * allows.
   */
  name: string;
}

/** An insurance policy. It is in force on its first and on its last day. */
export interface Policy {
  /** Policy number. */
  number: string;
  /** Name of the insurer; null if unknown. */
  insurer: string | null;
  /** First day of cover. */
  validFrom: string;
  /** Last day of cover, unless the policy is cancelled before. */
  validTo: string;
  /** Type of the policy in the words of the register; null if unknown. */
  type: string | null;
  /**
   * First day without cover, if the policy is cancelled; null if no cancellation is known. Only
   * with `details` or `policies=all`.
   */
  cancelledOn?: string | null;
}

/** What the registers know about the vehicle. A member is null if none of them knows it. */
export interface Vehicle {
  make: string | null;
  model: string | null;
  year: number | null;
  color: string | null;
}

/** With `details`: when the register that decided was last loaded. */
export interface InsuranceLoaded {
  /** Of several registers the oldest time; null if none decided. */
  insuranceValid: string | null;
}

/**
 * Why the vehicle is not insured on the first failing day, or why that is not known. Absent if
 * every day passes.
 */
export interface InsuranceReasons {
  /** As the reason of the compliance check. */
  insuranceValid: string;
}

/** Insurance on every day of the period that the request names. */
export interface InsurancePeriod {
  /** A date, `YYYY-MM-DD`. */
  firstDay: string;
  /** A date, `YYYY-MM-DD`. */
  lastDay: string;
  /**
   * Whether the vehicle is insured on every day. False and no answer if `unknown` names it. Absent
   * with `tooManyPolicies`.
   */
  validThroughout?: boolean;
  /**
   * Names `validThroughout` if no day fails for certain and one is not known. Otherwise absent. New
   * values may come.
   */
  unknown?: Array<string>;
  /**
   * The first day that fails for certain; if there is none, the first that is not known. Absent if
   * every day passes.
   */
  firstFailingDay?: string;
  reasons?: InsuranceReasons;
  /**
   * True if more than 100 policies of the vehicle end on or after the day: then later days are not
   * judged. Otherwise absent.
   */
  tooManyPolicies?: boolean;
}

/** Insurance of one vehicle. */
export interface InsuranceRecord {
  /** Canonical registration number: upper case letters and digits, no spaces or hyphens. */
  registration: string;
  /**
   * Whether a policy is in force on the day. If no policy is known, what a register says. False and
   * no answer if `unknown` names it.
   */
  insured: boolean;
  /**
   * Names `insured` if no register knows whether the vehicle is insured on the day. Otherwise
   * absent. New values may come.
   */
  unknown?: Array<string>;
  /**
   * The policy that is in force; of several, the one that ends last. If none is in force, the known
   * policy that ends last, be it past, future or cancelled. A cancelled policy ends on the day of
   * its cancellation, but keeps its `validTo`: decide by `insured`; compliance with `explain` tells
   * the reason, and `details` the day. Null if no policy is known.
   */
  policy: Policy | null;
  vehicle: Vehicle;
  /**
   * Newest change of the data used, never the time of the request. With a period, that is also
   * every policy that ends on or after its first day.
   */
  lastUpdated: string;
  /** The day of the request. Absent if the request names none. */
  asOf?: string;
  /**
   * With `policies=all`: all policies in force on the day, at most 20: `policy` first, then those
   * that end last. If more than 100 are in force, others may end later than those after the first.
   * The same insurer, number and first day in two registers are one policy. Several policies are a
   * double insurance.
   */
  policies?: Array<Policy>;
  /** True if more than 20 are in force. Otherwise absent. */
  policiesTruncated?: boolean;
  loaded?: InsuranceLoaded;
  period?: InsurancePeriod;
  /**
   * With `details`: the last day of the gapless cover that includes the day. Null if no end is
   * known. Absent if the vehicle is not insured on the day, or if that is not known. What is known
   * without a date counts for later days here.
   */
  insuredUntil?: string | null;
  /**
   * True if more than 100 policies of the vehicle end on or after the day: then later days are not
   * judged. Otherwise absent.
   */
  tooManyPolicies?: boolean;
}

/** Unknown members are refused. */
export interface BulkRequest {
  /**
   * Registration numbers, each as in a path. The plan sets how many: by default 100 with `free`,
   * 1,000 with `standard`, 10,000 with `enterprise`.
   */
  registrations: Array<string>;
  /** The day to judge by. By default today, in the service's time zone. */
  asOf?: string | null;
  /** The first day of a period, in place of `asOf`; needs `to`. */
  from?: string | null;
  /** The last day of the period. A period has at most 400 days. */
  to?: string | null;
  /**
   * Adds `vehicle`, `lastUpdated`, `loaded` and dates to each item without `error`, and
   * `cancelledOn` to its policy.
   */
  details?: boolean | null;
}

/**
 * Insurance of one of many vehicles: `policy`, or `error` and `code`. With `details` also
 * `vehicle`, `lastUpdated`, `loaded` and the dates; with a period also `period`.
 */
export interface BulkItem {
  /** In canonical form. As it was sent if `code` is `invalid_registration`. */
  registration: string;
  /** As in the insurance record. False if the item failed. */
  insured: boolean;
  /** As in the insurance record. Absent if the item failed. */
  unknown?: Array<string>;
  /** As in the insurance record. Absent if the item failed. */
  policy?: Policy | null;
  /** Why the item failed, for people. Absent if it did not. */
  error?: string;
  /** Why the item failed, for programs. Absent if it did not. New values may come. */
  code?: string;
  vehicle?: Vehicle;
  /** UTC in whole seconds, `YYYY-MM-DDTHH:MM:SSZ`. */
  lastUpdated?: string;
  loaded?: InsuranceLoaded;
  period?: InsurancePeriod;
  /**
   * With `details`: the last day of the gapless cover that includes the day. Null if no end is
   * known. Absent if the vehicle is not insured on the day, or if that is not known. What is known
   * without a date counts for later days here.
   */
  insuredUntil?: string | null;
  /**
   * True if more than 100 policies of the vehicle end on or after the day: then later days are not
   * judged. Otherwise absent.
   */
  tooManyPolicies?: boolean;
}

/** One item per registration number. */
export interface BulkResponse {
  /**
   * In the order sent. A number sent twice has two items. The objects in an item have the members
   * that they have for one vehicle.
   */
  results: Array<BulkItem>;
  /** `successful` plus `failed`. */
  processed: number;
  /** Items without `error`. */
  successful: number;
  /** Items with `error`. */
  failed: number;
  /** The day of the request. Absent if the request names none. */
  asOf?: string;
}

/** The four checks. One that `unknown` names is not known: it is false, or true for fines. */
export interface ComplianceChecks {
  /** As `insured` of the insurance record. */
  insuranceValid: boolean;
  /** Exempt, not expired, or not yet due. */
  motValid: boolean;
  /** Taxed or exempt, and not past the last day that is paid. */
  roadTaxPaid: boolean;
  /** No fine is owed now. True if no fine is on record, also if no register has fines. */
  noOutstandingFines: boolean;
}

/** Why each check came out as it did. Only with `explain`. */
export interface ComplianceReasons {
  /**
   * `valid`, `expired`, `future` or `cancelled`: the state of the policy. Without a policy, `flag`:
   * a register says insured; `none`: a register says not insured; `no_policy`: a register that
   * holds every policy has none; `unknown`: no register says anything; `not_known_then`: something
   * is known, but not for that day. New values may come.
   */
  insuranceValid: string;
  /**
   * `valid`, `expired`, `exempt`, `not_due` (the vehicle is too new for an MOT), `unknown`, or
   * `not_known_then` (something is known, but not for that day). New values may come.
   */
  motValid: string;
  /**
   * `valid`, `expired`, `exempt`, `sorn` (declared off the road), `untaxed`, `unknown`, or
   * `not_known_then` (something is known, but not for that day). New values may come.
   */
  roadTaxPaid: string;
  /**
   * `none`: nothing is owed; `outstanding`: a fine is owed now; `unknown`: no register has fines.
   * New values may come.
   */
  noOutstandingFines: string;
}

/**
 * With `details`: when the registers that decided each check were last loaded. Of several it is the
 * oldest time; null if none decided.
 */
export interface ComplianceLoaded {
  insuranceValid: string | null;
  motValid: string | null;
  roadTaxPaid: string | null;
  noOutstandingFines: string | null;
}

/** Compliance on every day of the period that the request names. */
export interface CompliancePeriod {
  /** A date, `YYYY-MM-DD`. */
  firstDay: string;
  /** A date, `YYYY-MM-DD`. */
  lastDay: string;
  /**
   * Whether the vehicle is road-legal on every day. False and no answer if `unknown` names it.
   * Absent with `tooManyPolicies`.
   */
  validThroughout?: boolean;
  /**
   * Names `validThroughout` if no day fails for certain and one is not known. Otherwise absent. New
   * values may come.
   */
  unknown?: Array<string>;
  /**
   * The first day that fails for certain; if there is none, the first that is not known. Absent if
   * every day passes.
   */
  firstFailingDay?: string;
  /** Why each check came out as it did on that day. Absent if every day passes. */
  reasons?: ComplianceReasons;
  /**
   * True if more than 100 policies of the vehicle end on or after the day: then later days are not
   * judged. Otherwise absent.
   */
  tooManyPolicies?: boolean;
}

/** Compliance of one vehicle. */
export interface ComplianceRecord {
  /** Canonical registration number: upper case letters and digits, no spaces or hyphens. */
  registration: string;
  /** Whether all four checks are true. False and no answer if `unknown` names it. */
  compliant: boolean;
  /**
   * The checks that no register knows on the day, and `compliant` if none fails for certain and one
   * besides the fines is not known. They are false, except `noOutstandingFines`, which stays true
   * if no register has fines. Absent if all is known. New values may come.
   */
  unknown?: Array<string>;
  checks: ComplianceChecks;
  /** Time of the request. */
  lastChecked: string;
  reasons?: ComplianceReasons;
  /** The day of the request. Absent if the request names none. */
  asOf?: string;
  loaded?: ComplianceLoaded;
  period?: CompliancePeriod;
  /**
   * With `details`: the last day of the gapless cover that includes the day. Null if no end is
   * known. Absent if the vehicle is not insured on the day, or if that is not known. What is known
   * without a date counts for later days here.
   */
  insuredUntil?: string | null;
  /**
   * With `details`: the last of the days from the day on, without a gap, on which the vehicle is
   * road-legal. Null if no end is known. Absent if it is not road-legal on the day, or if that is
   * not known.
   */
  compliantUntil?: string | null;
  /** Last day of the MOT; null if unknown. */
  motExpiry?: string | null;
  /** Whether the vehicle needs no MOT; null if unknown. */
  motExempt?: boolean | null;
  /** Day of the first registration; null if unknown. */
  firstRegistered?: string | null;
  /** Status of the road tax; null if unknown. New values may come. */
  taxStatus?: string | null;
  /** Last day for which the tax is paid; null if unknown. */
  taxDue?: string | null;
  /** How many fines are owed now. At most 100 are counted, and a fine in two registers counts once. */
  finesOutstanding?: number;
  /**
   * True if more than 100 policies of the vehicle end on or after the day: then later days are not
   * judged. Otherwise absent.
   */
  tooManyPolicies?: boolean;
}

/** Unknown members are refused. */
export interface ComplianceBulkRequest {
  /**
   * Registration numbers, each as in a path. The plan sets how many: by default 100 with `free`,
   * 1,000 with `standard`, 10,000 with `enterprise`.
   */
  registrations: Array<string>;
  /** The day to judge by. By default today, in the service's time zone. */
  asOf?: string | null;
  /** The first day of a period, in place of `asOf`; needs `to`. */
  from?: string | null;
  /** The last day of the period. A period has at most 400 days. */
  to?: string | null;
  /** Adds `reasons` to each item without `error`. */
  explain?: boolean | null;
  /**
   * Adds to each item without `error` what it adds to the check of one vehicle, `vehicle` and
   * `lastUpdated`.
   */
  details?: boolean | null;
}

/**
 * Compliance of one of many vehicles: `checks`, or `error` and `code`. With `explain` also
 * `reasons`, with `details` also what these add, with a period also `period`.
 */
export interface ComplianceBulkItem {
  /** In canonical form. As it was sent if `code` is `invalid_registration`. */
  registration: string;
  /** As in the compliance record. False if the item failed. */
  compliant: boolean;
  /** As in the compliance record. Absent if the item failed. */
  unknown?: Array<string>;
  checks?: ComplianceChecks;
  reasons?: ComplianceReasons;
  /** Why the item failed, for people. Absent if it did not. */
  error?: string;
  /** Why the item failed, for programs. Absent if it did not. New values may come. */
  code?: string;
  vehicle?: Vehicle;
  /** UTC in whole seconds, `YYYY-MM-DDTHH:MM:SSZ`. */
  lastUpdated?: string;
  loaded?: ComplianceLoaded;
  period?: CompliancePeriod;
  /**
   * With `details`: the last day of the gapless cover that includes the day. Null if no end is
   * known. Absent if the vehicle is not insured on the day, or if that is not known. What is known
   * without a date counts for later days here.
   */
  insuredUntil?: string | null;
  /**
   * With `details`: the last of the days from the day on, without a gap, on which the vehicle is
   * road-legal. Null if no end is known. Absent if it is not road-legal on the day, or if that is
   * not known.
   */
  compliantUntil?: string | null;
  /** Last day of the MOT; null if unknown. */
  motExpiry?: string | null;
  /** Whether the vehicle needs no MOT; null if unknown. */
  motExempt?: boolean | null;
  /** Day of the first registration; null if unknown. */
  firstRegistered?: string | null;
  /** Status of the road tax; null if unknown. New values may come. */
  taxStatus?: string | null;
  /** Last day for which the tax is paid; null if unknown. */
  taxDue?: string | null;
  /** How many fines are owed now. At most 100 are counted, and a fine in two registers counts once. */
  finesOutstanding?: number;
  /**
   * True if more than 100 policies of the vehicle end on or after the day: then later days are not
   * judged. Otherwise absent.
   */
  tooManyPolicies?: boolean;
}

/** One item per registration number. */
export interface ComplianceBulkResponse {
  /**
   * In the order sent. A number sent twice has two items. The objects in an item have the members
   * that they have for one vehicle.
   */
  results: Array<ComplianceBulkItem>;
  /** `successful` plus `failed`. */
  processed: number;
  /** Items without `error`. */
  successful: number;
  /** Items with `error`. */
  failed: number;
  /** The day of the request. Absent if the request names none. */
  asOf?: string;
}

/** One check of a watched vehicle. */
export interface WatchCheck {
  /** Whether the vehicle passes the check. */
  valid: boolean;
  /** Why, as `reasons` of a compliance check with `explain`. New values may come. */
  reason: string;
  /** The last of the days on which it passes without a gap. Null if it fails, or if no end is known. */
  lastDay: string | null;
}

/** The four checks of a watched vehicle. */
export interface WatchChecks {
  insurance: WatchCheck;
  mot: WatchCheck;
  tax: WatchCheck;
  /** Valid if no fine is owed. It has no last day. */
  fines: WatchCheck;
}

/** A vehicle that is watched, and the state that the account was told last. */
export interface Watch {
  /** Canonical registration number: upper case letters and digits, no spaces or hyphens. */
  registration: string;
  /** How many days before a check fails an event comes, the greatest first. */
  leadDays: Array<number>;
  /** Your name for the watch; null if it has none. */
  reference: string | null;
  /** The last day of the watch; null if it has no end. */
  until: string | null;
  /** When the watch was created, or created again after it was deleted. */
  created: string;
  /** The day that the state was judged on. It stays while a change of it is held back. */
  asOf: string;
  /** Whether a register mentions the vehicle. */
  known: boolean;
  /** The state that the account was told last. Null if the vehicle is not known. */
  checks: WatchChecks | null;
}

/** Watches of the account, by registration number. */
export interface WatchList {
  watches: Array<Watch>;
  /** The `after` of the next page; null on the last page. */
  next: string | null;
}

/** What to watch for. Unknown members are refused. */
export interface WatchRequest {
  /**
   * How many days before a check fails you want an event: at most 10 different numbers. If several
   * have passed at once, only the smallest is reported. By default none.
   */
  leadDays?: Array<number>;
  /** Your name for the watch. Its events have it, too. */
  reference?: string | null;
  /**
   * The last day of the watch. By default it has no end. If the plan needs a reason, it is needed,
   * at most 400 days after today.
   */
  until?: string | null;
}

/** One of many watches. Unknown members are refused. */
export interface AddedWatch {
  /** Registration number, as in a path. */
  registration: string;
  /**
   * How many days before a check fails you want an event: at most 10 different numbers. If several
   * have passed at once, only the smallest is reported. By default none.
   */
  leadDays?: Array<number>;
  /** Your name for the watch. Its events have it, too. */
  reference?: string | null;
  /**
   * The last day of the watch. By default it has no end. If the plan needs a reason, it is needed,
   * at most 400 days after today.
   */
  until?: string | null;
}

/** At least one registration number, and each only once. Unknown members are refused. */
export interface BulkWatchRequest {
  /** The watches to create or replace. */
  add?: Array<AddedWatch>;
  /** Registration numbers whose watches to delete. */
  remove?: Array<string>;
}

/**
 * What was done: a watch that was created or replaced has the members of `Watch`; one that failed
 * has `error` and `code`.
 */
export interface BulkWatchItem {
  /** In canonical form. As it was sent if `code` is `invalid_registration`. */
  registration: string;
  /** What was done with the watch. New values may come. */
  status: string;
  /** How many days before a check fails an event comes, the greatest first. */
  leadDays?: Array<number>;
  /** Your name for the watch; null if it has none. */
  reference?: string | null;
  /** The last day of the watch; null if it has no end. */
  until?: string | null;
  /** When the watch was created, or created again after it was deleted. */
  created?: string;
  /** The day that the state was judged on. It stays while a change of it is held back. */
  asOf?: string;
  /** Whether a register mentions the vehicle. */
  known?: boolean;
  /** The state that the account was told last. Null if the vehicle is not known. */
  checks?: WatchChecks | null;
  /** Why it failed, for people. Absent if it did not. */
  error?: string;
  /** Why it failed, for programs. Absent if it did not. New values may come. */
  code?: string;
}

/** One item per registration number. */
export interface BulkWatchResponse {
  /** In the order sent: first those to add, then those to remove. */
  results: Array<BulkWatchItem>;
  /** `successful` plus `failed`. */
  processed: number;
  /** Items without `error`. */
  successful: number;
  /** Items with `error`. */
  failed: number;
}

/**
 * The check that the event is about: `valid`, `reason` and `lastDay`. Events about the vehicle or
 * the watch have all four checks instead: `insurance`, `mot`, `tax` and `fines`.
 */
export interface EventState {
  /** Whether the vehicle passes the check. */
  valid?: boolean;
  /** Why, as `reasons` of a compliance check with `explain`. New values may come. */
  reason?: string;
  /** The last of the days on which it passes without a gap. Null if it fails, or if no end is known. */
  lastDay?: string | null;
  insurance?: WatchCheck;
  mot?: WatchCheck;
  tax?: WatchCheck;
  fines?: WatchCheck;
}

/** Something that happened to a watched vehicle. */
export interface Event {
  /** The id of an event, which is also the place after it. Its form may change. */
  id: string;
  /**
   * A check, and whether its verdict has changed (`.changed`) or it soon fails (`.ending`); or
   * `vehicle.known`, `vehicle.unknown`, `watch.ended`. New values may come.
   */
  type: string;
  /** When the service found it out. */
  time: string;
  /** Canonical registration number: upper case letters and digits, no spaces or hyphens. */
  registration: string;
  /** That of the watch. */
  reference: string | null;
  /** What the account was told before; null if the vehicle was not known. */
  before: EventState | null;
  /** Its state now; null if the vehicle is not known, or no longer watched. */
  after: EventState | null;
}

/** Events of the account, the oldest first. */
export interface EventList {
  events: Array<Event>;
  /**
   * What to send as `after` next time, also if there are no events. Null if the account never had a
   * watch.
   */
  next: string | null;
  /** Whether there are more events already. */
  hasMore: boolean;
  /** When the service compares all watches next. It also does so after each load. */
  nextSweep: string;
}

/** What the account may use. */
export interface Plan {
  name: string;
  /** Requests allowed in the window. */
  requests: number;
  /** Length of the window. */
  windowSeconds: number;
  /** Registration numbers allowed in one bulk request. */
  bulkMax: number;
  /** Domains allowed. */
  domainsMax: number;
  /** Watches allowed. */
  watchesMax: number;
  /**
   * Whether look-ups need the header `Enquiry-Reason`. `off`: the enquiry headers are ignored.
   * `optional`: they are checked and may be recorded. `required`: a look-up or a new watch without
   * a reason is refused.
   */
  enquiry: string;
  /** The reasons that the plan accepts. If empty, it accepts any. */
  enquiryReasons: Array<string>;
  /** Whether the 404 of a look-up of one vehicle has `suggestions`. */
  suggest: boolean;
  /** Whether the account is a sandbox, which gets invented answers. Its keys begin with `vfd_test_`. */
  sandbox: boolean;
}

/** The key that the request was sent with. */
export interface AccountKey {
  /** The public part of the key; the operator and the log name the key by it. */
  id: string;
  /** What the operator noted; null if nothing. */
  label: string | null;
  /** When the key stops working; null if never. */
  expiresAt: string | null;
  /**
   * The operations that the key is restricted to: `domains` or `vehicles`; null if it may use all.
   * New values may come.
   */
  only: string | null;
  /** The networks that the key may be used from; empty if from everywhere. */
  networks: Array<string>;
}

/** The account of the key. */
export interface Account {
  name: string;
  plan: Plan;
  /** How many more requests would be admitted now, as in `X-RateLimit-Remaining`. */
  requestsRemaining: number;
  /** Domains of the account, suspended ones too. */
  domainsUsed: number;
  /** Watches of the account. */
  watchesUsed: number;
  key: AccountKey;
}

/** The answers of one operation on one day. */
export interface OperationUsage {
  /** A date, `YYYY-MM-DD`. */
  day: string;
  /**
   * The operation; `events` stands for no request, but for what the account's watches reported,
   * `other` for OPTIONS, and for paths and methods that do not exist. New values may come.
   */
  operation: string;
  /** All answers, the sum of the next four. */
  answers: number;
  /** Answers with a status from 200 to 299. */
  status2xx: number;
  /** Answers with a status from 400 to 499, except 429. Unknown vehicles (404) are among them. */
  status4xx: number;
  /** Requests refused by the rate limit. */
  status429: number;
  /** Answers with a status from 500 on. */
  status5xx: number;
  /**
   * Vehicles that were looked up, unknown ones too. A bulk request counts each item of its answer,
   * a 404 also each of its suggestions. Watches count when they are new.
   */
  vehicles: number;
  /** Events of the account's watches, only with the operation `events`. */
  events: number;
}

/** What the account has used. */
export interface UsageReport {
  /** A date, `YYYY-MM-DD`. */
  firstDay: string;
  /** A date, `YYYY-MM-DD`. */
  lastDay: string;
  /** An item for each day and operation. Those without answers are left out. */
  usage: Array<OperationUsage>;
}

/** The parameters of listDomains. */
export interface ListDomainsQuery {
  /** At most this many domains, 1 to 1,000. Without it the answer has all of them. */
  limit?: number;
  /**
   * A domain name. Only domains whose names come after it are listed: send the `next` of the
   * previous page.
   */
  after?: string;
  /** Only domains with this status. */
  status?: "active" | "suspended";
}

/** The parameters of checkVehicleInsurance. */
export interface CheckVehicleInsuranceQuery {
  /** The day to judge by. By default today, in the service's time zone. */
  asOf?: string;
  /**
   * The first day of a period; needs `to`, and excludes `asOf`. All members but `period` are about
   * this day.
   */
  from?: string;
  /** The last day of the period, which is included. A period has at most 400 days. */
  to?: string;
  /**
   * Adds when the registers that decided were loaded and the dates until which the answer stays as
   * it is, to insurance also the policy's `cancelledOn`, and to compliance also `motExempt`,
   * `firstRegistered`, `taxStatus` and `finesOutstanding`. `True`, `TRUE` and `1` are accepted as
   * well.
   */
  details?: boolean;
  /** `all` adds `policies`: all policies that are in force on the day. */
  policies?: "all";
}

/** The parameters of checkCompliance. */
export interface CheckComplianceQuery {
  /** The day to judge by. By default today, in the service's time zone. */
  asOf?: string;
  /**
   * The first day of a period; needs `to`, and excludes `asOf`. All members but `period` are about
   * this day.
   */
  from?: string;
  /** The last day of the period, which is included. A period has at most 400 days. */
  to?: string;
  /**
   * Adds when the registers that decided were loaded and the dates until which the answer stays as
   * it is, to insurance also the policy's `cancelledOn`, and to compliance also `motExempt`,
   * `firstRegistered`, `taxStatus` and `finesOutstanding`. `True`, `TRUE` and `1` are accepted as
   * well.
   */
  details?: boolean;
  /** Adds `reasons` to the answer. `True`, `TRUE` and `1` are accepted as well. */
  explain?: boolean;
}

/** The parameters of listWatches. */
export interface ListWatchesQuery {
  /** At most this many watches, 1 to 1,000. By default 100. */
  limit?: number;
  /** A registration number. Only watches after it are listed: send the `next` of the previous page. */
  after?: string;
}

/** The parameters of listEvents. */
export interface ListEventsQuery {
  /**
   * The `next` of an earlier answer, or the `id` of an event. Only later events are listed. Without
   * it the list begins with the oldest event that is kept, or after the last one that is missing.
   */
  after?: string;
  /** At most this many events, 1 to 1,000. By default 100. */
  limit?: number;
}

/** The parameters of getUsage. */
export interface GetUsageQuery {
  /** The first day. A period has at most 400 days. By default the first day of the month of `to`. */
  from?: string;
  /** The last day, which is included. By default today, in the service's time zone. */
  to?: string;
}

/** Sends requests with one key. */
export class TypedClient extends Client {
  /**
   * List domains.
   *
   * Lists the domains of the account by name: all of them, or page by page with `limit` and
   * `after`.
   */
  listDomains(query: ListDomainsQuery = {}): Promise<DomainList> {
    return this.ask("GET", `/api/domains${search(query)}`);
  }

  /**
   * Create a domain.
   *
   * Creates a domain in the account. Names are unique within an account. `Location` is the path of
   * the new domain. After 500, 502, 503 or 504 send the request again, and take 409 as success.
   */
  createDomain(body: DomainRequest): Promise<Domain> {
    return this.ask("POST", "/api/domains", body);
  }

  /**
   * Get a domain.
   *
   * Returns one domain of the account. A domain of another account is not found.
   */
  getDomain(domain: string): Promise<Domain> {
    return this.ask("GET", `/api/domains/${encodeURIComponent(domain)}`);
  }

  /**
   * Delete a domain.
   *
   * Deletes a domain of the account. A suspended domain cannot be deleted. After 500, 502, 503 or
   * 504 send the request again, and take 404 as success.
   */
  deleteDomain(domain: string): Promise<void> {
    return this.ask("DELETE", `/api/domains/${encodeURIComponent(domain)}`);
  }

  /**
   * Check the insurance of a vehicle.
   *
   * Tells whether a vehicle is insured today, on the day `asOf`, or on every day of a period
   * (`from` and `to`). A vehicle that is known but not insured gets 200 with `insured: false`; so
   * does one whose insurance is not known, which `unknown` says. On plans with suggestions, the 404
   * of a vehicle that is not found has `suggestions`: known ones with a registration number that
   * looks alike.
   */
  checkVehicleInsurance(registration: string, query: CheckVehicleInsuranceQuery = {}): Promise<InsuranceRecord> {
    return this.ask("GET", `/v1/vehicle/${encodeURIComponent(registration)}/insurance${search(query)}`);
  }

  /**
   * Check the insurance of many vehicles.
   *
   * Checks up to `bulkMax` vehicles of the account's plan in one request, which takes one token. A
   * registration number that is not found or malformed gets an item with `error`; the status is
   * still 200. `unknown` of an item names what no register knows.
   */
  checkVehicles(body: BulkRequest): Promise<BulkResponse> {
    return this.ask("POST", "/v1/vehicle/bulk-insurance", body);
  }

  /**
   * Check the compliance of a vehicle.
   *
   * Tells whether a vehicle is road-legal today, on the day `asOf`, or on every day of a period
   * (`from` and `to`): insurance, MOT, road tax and fines. Fines are always those of now. `unknown`
   * names what no register knows. On plans with suggestions, the 404 of a vehicle that is not found
   * has `suggestions`: known ones with a registration number that looks alike.
   */
  checkCompliance(registration: string, query: CheckComplianceQuery = {}): Promise<ComplianceRecord> {
    return this.ask("GET", `/v1/compliance/${encodeURIComponent(registration)}${search(query)}`);
  }

  /**
   * Check the compliance of many vehicles.
   *
   * Checks up to `bulkMax` vehicles of the account's plan in one request, which takes one token. A
   * registration number that is not found or malformed gets an item with `error`; the status is
   * still 200. `unknown` of an item names what no register knows.
   */
  checkVehiclesCompliance(body: ComplianceBulkRequest): Promise<ComplianceBulkResponse> {
    return this.ask("POST", "/v1/compliance/bulk", body);
  }

  /**
   * List watches.
   *
   * Lists the watches of the account by registration number, page by page. Each has the state that
   * the account was told last; no register is read.
   */
  listWatches(query: ListWatchesQuery = {}): Promise<WatchList> {
    return this.ask("GET", `/v1/watches${search(query)}`);
  }

  /**
   * Get a watch.
   *
   * Returns one watch of the account, with the state that the account was told last; no register is
   * read. A watch of another account is not found.
   */
  getWatch(registration: string): Promise<Watch> {
    return this.ask("GET", `/v1/watches/${encodeURIComponent(registration)}`);
  }

  /**
   * Watch a vehicle.
   *
   * Watches a vehicle, which need not be known. A new watch looks it up; the answer is its state
   * now. An existing watch is replaced, and keeps the state that the account was told last: you can
   * send all your watches every night. Changes come as events. If the plan needs a reason, so does
   * the watch; it counts for all states and events until the watch ends.
   */
  putWatch(registration: string, body: WatchRequest): Promise<Watch> {
    return this.ask("PUT", `/v1/watches/${encodeURIComponent(registration)}`, body);
  }

  /**
   * Delete a watch.
   *
   * Ends a watch of the account without an event. Its events stay. After 500, 502, 503 or 504 send
   * the request again, and take 404 as success.
   */
  deleteWatch(registration: string): Promise<void> {
    return this.ask("DELETE", `/v1/watches/${encodeURIComponent(registration)}`);
  }

  /**
   * Add and remove many watches.
   *
   * Adds or replaces watches, and removes others: up to `bulkMax` of the account's plan together,
   * in one request, which takes one token. What can be done is done together, or none of it. A
   * registration number that fails gets an item with `error`; the status is still 200.
   */
  changeWatches(body: BulkWatchRequest): Promise<BulkWatchResponse> {
    return this.ask("POST", "/v1/watches/bulk", body);
  }

  /**
   * List events.
   *
   * Lists the events of the account's watches, the oldest first, after the one that `after` names.
   * Events are kept for 90 days. Keep `next`, and send it as `after` next time: at once if
   * `hasMore`, otherwise when `nextSweep` has passed. `410 events_gone` means that events may have
   * been missed: list the watches, which have their states, and then read events without `after`.
   */
  listEvents(query: ListEventsQuery = {}): Promise<EventList> {
    return this.ask("GET", `/v1/events${search(query)}`);
  }

  /**
   * Get the account of the key.
   *
   * Returns the account, its plan, what is left of its limits, and the key that you sent.
   */
  getAccount(): Promise<Account> {
    return this.ask("GET", "/v1/account");
  }

  /**
   * Get the usage of the account.
   *
   * Returns how many answers the account got, and for how many vehicles, by day and operation. Days
   * are those of the service's time zone, and are kept for 400 days. The usage of the last ten
   * seconds may be missing.
   */
  getUsage(query: GetUsageQuery = {}): Promise<UsageReport> {
    return this.ask("GET", `/v1/usage${search(query)}`);
  }
}

function search(parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
