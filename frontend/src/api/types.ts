/** Types of the API, generated from its OpenAPI description. */

import type { components } from './description';

type Schemas = components['schemas'];

export type AutoCreation = Schemas['AutoCreation'];
export type Change = Schemas['FieldChange'];
export type Comment = Schemas['Comment'];
export type Config = Schemas['Config'];
export type Document = Schemas['Document'];
export type DocumentGroup = Schemas['DocumentGroup'];
export type DocumentGroups = Schemas['DocumentGroups'];
export type ListedDocument = Schemas['ListedDocument'];
export type DocumentOrder = Schemas['DocumentOrder'];
export type DocumentDetails = Schemas['DocumentDetails'];
export type DocumentStatus = Schemas['DocumentStatus'];
export type Evidence = Schemas['Evidence'];
export type Extraction = Schemas['Extraction'];
export type ChangedExtraction = Schemas['ChangedExtraction'];
export type ExtractionSummary = Schemas['ExtractionSummary'];
export type FieldError = Schemas['FieldViolation'];
/** What the service says of a field: whether a person has to look at it, and why. */
export type FieldStatusOf = Schemas['FieldStatusOf'];
export type Reason = NonNullable<FieldStatusOf['reason']>;
export type FieldLocation = Schemas['Location'];
export type Invitation = Schemas['Invitation'];
export type Key = Schemas['ApiKey'];
export type Lock = Schemas['Lock'];
export type Me = Schemas['Me'];
export type Member = Schemas['Member'];
export type MembershipRole = Schemas['MembershipRole'];
export type Organisation = Schemas['Organisation'];
export type OrganisationChange = Schemas['OrganisationChange'];
export type PageWithWords = Schemas['Page'];
export type Permission = Schemas['Permission'];
export type Problem = Schemas['Problem'];
export type RecordRow = Schemas['TableRow'];
/** A row that has been read: its values can be changed. */
export type ReadRow = RecordRow & { extraction_id: string; version: number };
export type RecordMark = RecordsPage['marks'][number];
export type RecordCell = Schemas['TableCell'];
export type RecordsPage = Schemas['TablePage'];
export type TableColumn = Schemas['Column'];
export type TableGroup = Schemas['TableGroup'];
export type TableSummary = Schemas['TableSummary'];
export type SavedView = Schemas['SavedView'];
export type ColumnTotal = Schemas['ColumnTotal'];
export type MissingRow = Schemas['MissingRow'];
export type RuleFix = Schemas['RuleFix'];
export type Run = Schemas['Run'];
export type RunEvent = Schemas['RunEvent'];
export type RunStatus = Schemas['RunStatus'];
export type Stack = Schemas['Stack'];
export type StackColumn = Schemas['ColumnDefinition'];
export type ReplacedValue = Schemas['ReplacedValue'];
export type ColumnsChanged = Schemas['ColumnsChanged'];
export type Source = Schemas['Source'];
export type ShownChange = Schemas['ShownChange'];
export type SearchHit = Schemas['Hit'];
export type UploadRule = Schemas['Rule'];
export type Tag = Schemas['Tag'];
export type Thread = Schemas['Thread'];
export type ThreadSummary = Schemas['ThreadSummary'];
export type ToolNames = Schemas['ToolNames'];
export type Turn = Schemas['Turn'];
export type UnmappedPage = Schemas['UnmappedPage'];
export type KnownField = Schemas['KnownField'];
export type FigureTable = Schemas['FigureTable'];
export type TypedAnswer = NonNullable<Turn['result']>;
export type UnmappedItem = Schemas['Unmapped'];
export type Overview = Schemas['Overview'];
export type TableCost = Schemas['TableCost'];
export type CostShare = Schemas['CostShare'];
export type FieldQuality = Schemas['FieldQuality'];
export type TableQuality = Schemas['TableQuality'];
export type CountedValue = Schemas['CountedValue'];
export type CountedKind = Schemas['CountedKind'];
export type DoneOnDay = Schemas['DoneOnDay'];
export type DocumentSource = Schemas['DocumentSource'];
export type Webhook = Schemas['Webhook'];
export type Delivery = Schemas['Delivery'];
export type ChangeType = Schemas['ChangeType'];
export type WaitingCall = Schemas['WaitingCall'];
export type Word = Schemas['Word'];

/** x0, y0, x1, y1 as fractions of the page, from its upper left corner. */
export type Box = readonly [number, number, number, number];
